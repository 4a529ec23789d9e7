"""`trainfit measurements`: what runs have printed of their memory and speed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from trainfit.cli.logs import artifact
from trainfit.cli.terminal import labelled, print_all, print_json, table
from trainfit.decisions.quantities import gib
from trainfit.measurements.measurement import Measurement, Measurements, Speed
from trainfit.questions.measurements import measured
from trainfit.questions.wire import to_json
from trainfit.specs.artifacts import Artifacts, LogFormat, Place

LOGS = Parameter(help="What runs have printed; /dev/stdin is what is piped in.")
FORMAT = Parameter(name="--format", help="What alone is read. Unset: every format that is known.")
JSON = Parameter(name="--json", negative=(), show_default=False, help="Print what HTTP answers.")


def measurements(
    logs: Annotated[list[Path], LOGS],
    /,
    *,
    format: Annotated[LogFormat | None, FORMAT] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Print what logs say of memory and speed, and the lines of memory that were not read."""
    read = measured(Artifacts(artifacts=tuple(artifact(log, format) for log in logs)))
    if as_json:
        print_json(to_json(read))
    else:
        print_all(*_tables(read))


def _tables(read: Measurements) -> Iterable[Table]:
    yield _figures(read.measurements)
    if read.speeds:
        yield _speeds(read.speeds)
    if read.occurrences:
        counted = [(each.event, f"{each.count}, {_at(each.source)}") for each in read.occurrences]
        yield labelled(counted)
    if read.unread:
        yield labelled([(f"not read: {_at(each.source)}", each.why) for each in read.unread])


def _figures(figures: list[Measurement]) -> Table:
    rows = table(["counter"], ["GiB"])
    for name in ("rank", "step", "moment", "since", "where"):
        rows.add_column(name)
    for each in figures:
        rows.add_row(
            each.counter,
            gib(each.bytes),
            _known(each.rank),
            _known(each.step),
            each.moment,
            each.peak_window or "",
            _at(each.source),
        )
    return rows


def _speeds(speeds: list[Speed]) -> Table:
    rows = table(["step"], ["seconds", "tokens/s a GPU", "TFLOP/s a GPU"])
    rows.add_column("where")
    for each in speeds:
        rates = (each.seconds, each.tokens_per_second_per_gpu, each.tflops_per_gpu)
        shown = ["" if rate is None else f"{rate:,.6g}" for rate in rates]
        rows.add_row(_known(each.step), *shown, _at(each.source))
    return rows


def _known(number: int | None) -> str:
    return "" if number is None else str(number)


def _at(source: Place) -> str:
    return f"{source.name}:{source.line}"

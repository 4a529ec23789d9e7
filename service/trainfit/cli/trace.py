"""`trainfit trace`: what a rank asks of PyTorch's allocator, replayed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.estimate import JOB, NAMED
from trainfit.cli.flags import takes_job_flags
from trainfit.cli.jobs import question
from trainfit.cli.launches import NOTHING_SAID, LaunchOptions
from trainfit.cli.lookup import answered
from trainfit.cli.terminal import labelled, print_all, print_json, table
from trainfit.decisions.quantities import gib
from trainfit.questions.dimensions import Find
from trainfit.questions.trace import RankTrace, memory_snapshot, rank_trace
from trainfit.questions.wire import to_json
from trainfit.specs.ledger import TraceRequest

RANK = Parameter(name="--pp-rank", help="Pipeline rank, from 0. Unset: the one that needs most.")
OUTPUT = Parameter(
    name=("--output", "-o"),
    help="Write a memory snapshot there that pytorch.org/memory_viz opens.",
)
JSON = Parameter(name="--json", negative=(), show_default=False, help="Print what HTTP answers.")
SHOWN = 12
"""Tensors of the peak that are printed."""


@takes_job_flags
def trace(
    named: Annotated[list[str] | None, NAMED] = None,
    /,
    *,
    job: Annotated[Path | None, JOB] = None,
    pp_rank: Annotated[int | None, RANK] = None,
    output: Annotated[Path | None, OUTPUT] = None,
    as_json: Annotated[bool, JSON] = False,
    launch: LaunchOptions = NOTHING_SAID,
    **flags: Any,
) -> None:
    """Replay what a pipeline rank asks of the allocator, moment by moment."""
    document = question(named or (), job, flags, launch)
    if pp_rank is not None:
        document["pp_rank"] = pp_rank

    def answer(job: TraceRequest, find: Find, _: object) -> tuple[RankTrace, bytes | None]:
        return rank_trace(job, find), memory_snapshot(job, find) if output is not None else None

    _, (found, snapshot) = answered(document, TraceRequest, answer, as_json=as_json)
    if output is not None and snapshot is not None:
        _write(output, snapshot)
    if as_json:
        print_json(to_json(found))
    else:
        print_all(*_tables(found, output))


def _write(path: Path, snapshot: bytes) -> None:
    try:
        path.write_bytes(snapshot)
    except OSError as error:
        raise RefusedCommandError(f"trainfit: --output: {error}") from None


def _tables(found: RankTrace, output: Path | None) -> Iterator[Table]:
    peak = found.peak
    yield labelled(
        [
            ("rank", f"pipeline rank {found.pp_rank}, {found.requests:,} requests"),
            ("reserved", f"{gib(found.reserved_bytes)} GiB at most"),
            ("peak", f"{gib(peak.allocated_bytes)} GiB allocated in {peak.moment}"),
            ("then free", f"{gib(peak.split_bytes)} GiB in segments that are used in part"),
            ("unused", f"{gib(peak.unused_bytes)} GiB in whole segments"),
            ("retries", f"{found.cache_retries} times the whole cache is given back"),
        ]
        + ([] if output is None else [("snapshot", f"{output}: open it at pytorch.org/memory_viz")])
    )
    tensors = table(["at the peak"], ["tensors", "GiB"])
    for each in peak.tensors[:SHOWN]:
        tensors.add_row(each.name, f"{each.count:,}", f"{each.bytes / 2**30:.2f}")
    rest = peak.tensors[SHOWN:]
    if rest:
        count, size = sum(each.count for each in rest), sum(each.bytes for each in rest)
        tensors.add_row("others", f"{count:,}", f"{size / 2**30:.2f}")
    yield tensors

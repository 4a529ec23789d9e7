"""Places in the pages that follow from the formats of logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.docs.markdown import code, table
from trainfit.api.examples import RECONCILE_EXAMPLES
from trainfit.decisions.quantities import gib, gib_range, plain
from trainfit.measurements.documents import TIMELINE
from trainfit.measurements.formats.trainers import unit_of_torchtune
from trainfit.measurements.line_format import DECIMAL, GB, GIB, MIB, Bytes, Figure, SpeedPattern
from trainfit.measurements.read import COMPILED
from trainfit.questions.reconcile import reconciled
from trainfit.specs.reconcile import ReconcileRequest

UNITS = {1: "bytes", MIB: "MiB", GIB: "GiB", GB: "10^9 bytes"}
SINCE = {
    "run": "the run began",
    "log": "the line before",
    "phase": "the phase began",
    None: "",
}


def log_formats() -> str:
    """A row for every figure that is read."""
    rows: dict[tuple[str, ...], None] = {}
    for each in COMPILED:
        for figure in each.format.figures:
            rows[(each.format.name, *_told(figure))] = None
    peak, current = code("allocated_bytes.all.peak"), code("allocated_bytes.all.current")
    rows[("transformers", peak, "bytes, MiB", SINCE["phase"])] = None
    rows[(TIMELINE, peak, "bytes", SINCE["phase"])] = None
    rows[(TIMELINE, current, "bytes", "")] = None
    head = ["format", "figure", "unit", "highest since"]
    return table(head, [list(row) for row in rows])


def _told(figure: Figure) -> tuple[str, str, str]:
    match figure:
        case Bytes():
            return code(figure.counter), _unit(figure), SINCE[figure.window]
        case SpeedPattern():
            return code(figure.what), "", ""
        case _:
            return code(figure.event), "times", ""


def _unit(figure: Bytes) -> str:
    if isinstance(figure.unit, int):
        return UNITS[figure.unit]
    if figure.unit is unit_of_torchtune:
        return "GiB, before its 0.3 10^9 bytes"
    return "bytes, in thousands" if figure.unit is DECIMAL else "as it says"


def reconciled_run() -> str:
    """The example of a run beside its prediction."""
    run = RECONCILE_EXAMPLES["megatron"]["value"]
    answer = reconciled(ReconcileRequest.model_validate(run))
    compared = [
        [
            each.quantity,
            gib(each.measured_bytes),
            "" if each.predicted is None else gib(each.predicted.expected),
            "" if each.predicted is None else gib_range(each.predicted),
            plain(each.verdict),
        ]
        for each in answer.comparisons
    ]
    explained = [
        [each.meaning, f"{1 - each.after_ratio / each.before_ratio:.0%}"]
        for each in answer.explanations
    ]
    first = table(["bytes", "measured, GiB", "expected", "bounds", "is"], compared)
    second = table(["what would explain it", "of the difference"], explained)
    return f"{first}\n\n{second}"


BLOCKS: Mapping[str, Callable[[], str]] = {
    "log-formats": log_formats,
    "reconciled-run": reconciled_run,
}

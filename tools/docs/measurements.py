"""Places in the pages that follow from the formats of logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.docs.markdown import code, table
from trainfit.measurements.line_format import GB, GIB, MIB, Bytes, Figure, Pace
from trainfit.measurements.read import COMPILED

UNITS = {1: "bytes", MIB: "MiB", GIB: "GiB", GB: "10^9 bytes", None: "as it says"}
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
    rows[("transformers", code("allocated_bytes.all.peak"), "bytes, MiB", SINCE["phase"])] = None
    head = ["format", "figure", "unit", "highest since"]
    return table(head, [list(row) for row in rows])


def _told(figure: Figure) -> tuple[str, str, str]:
    match figure:
        case Bytes():
            return code(figure.counter), UNITS[figure.unit], SINCE[figure.window]
        case Pace():
            return code(figure.what), "", ""
        case _:
            return code(figure.event), "times", ""


BLOCKS: Mapping[str, Callable[[], str]] = {"log-formats": log_formats}

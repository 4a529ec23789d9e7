"""A table for people, and below it why and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from trainfit.cli.colours import STYLES
from trainfit.cli.gate.cases import CheckedJob, Gate
from trainfit.cli.gate.words import WORDS, advice, notes
from trainfit.cli.terminal import labelled, print_all, table
from trainfit.decisions.quantities import gib, gib_range
from trainfit.questions.fit_check import FitCheckAnswer


def print_table(cases: Sequence[CheckedJob], gate: Gate) -> None:
    """A row for each job and card; what closes the gate is marked."""
    rows = table(
        ["", "job", "GPU", "verdict"],
        ["needs (GiB)", "usable (GiB)"],
        expendable=["where", "usable (GiB)"],
    )
    rows.add_column("where", no_wrap=True)
    for case in cases:
        outcome = Text(WORDS[case.outcome], STYLES[case.outcome])
        mark = "✗" if gate.fails(case) else ""
        rows.add_row(mark, case.entry.name, case.gpu, outcome, *_cells(case))
    explained = [line for case in cases for line in _explained(case)]
    print_all(rows, *([labelled(explained)] if explained else []))


def _cells(case: CheckedJob) -> tuple[str, str, str]:
    place = f"{case.path}:{case.entry.line}"
    if not isinstance(case.answer, FitCheckAnswer):
        return "", "", place
    binding = case.answer.binding
    needed = gib_range(binding.device_bytes) if binding is not None else ""
    return needed, gib(case.answer.usable_bytes), place


def _explained(case: CheckedJob) -> Iterator[tuple[str, str | Text]]:
    changes = list(advice(case))
    if case.outcome == "fits" and not changes:
        return
    about = f"{case.entry.name} on {case.gpu}"
    for note in notes(case):
        yield about, note.text
        about = ""
    if case.allowed is not None:
        yield "", f"allowed: {case.allowed}"
    for change in changes:
        yield "", f"- {change}"

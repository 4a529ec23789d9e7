"""The answers as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainfit.cli.gate.cases import CheckedJob, Gate, Outcome
from trainfit.questions.fit_check import FitCheckAnswer
from trainfit.questions.problems import Problem
from trainfit.questions.wire import to_json


@dataclass(frozen=True, slots=True)
class Checked:
    """A job on a card. `fit_check` is what HTTP answers; null where there is a `problem`."""

    path: str
    line: int
    name: str
    gpu: str
    outcome: Outcome
    failed: bool
    fit_check: FitCheckAnswer | None
    problem: Problem | None


@dataclass(frozen=True, slots=True)
class GateReport:
    """All of them, in the order of the files, and the exit code."""

    exit_code: int
    checks: list[Checked]


def document(cases: Sequence[CheckedJob], gate: Gate) -> str:
    """The report as JSON."""
    checks = [
        Checked(
            path=case.path,
            line=case.entry.line,
            name=case.entry.name,
            gpu=case.gpu,
            outcome=case.outcome,
            failed=gate.fails(case),
            fit_check=case.answer if isinstance(case.answer, FitCheckAnswer) else None,
            problem=case.answer if isinstance(case.answer, Problem) else None,
        )
        for case in cases
    ]
    return to_json(GateReport(gate.exit_code(cases), checks)).decode()

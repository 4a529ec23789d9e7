"""What came of each job on each card, and the exit code that follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trainfit.cli.entries import Entry
from trainfit.cli.job_files import readable
from trainfit.cli.service import UNAVAILABLE, is_unanswered
from trainfit.questions.fit_check import FitCheckAnswer
from trainfit.questions.kinds import (
    GATED_MODEL,
    MODEL_NOT_ALLOWED,
    NOT_MODELLED,
    UNKNOWN_MODEL,
    UNSUPPORTED_MODEL,
    VERSION_NOT_SERVED,
)
from trainfit.questions.problems import Problem

Outcome = Literal["fits", "tight", "does_not_fit", "unknown", "invalid", "unavailable"]
"""A verdict, or that there is none: the job is wrong, or nobody could answer."""

EXIT_CODES: Mapping[Outcome, int] = {
    "fits": 0,
    "does_not_fit": 1,
    "invalid": 2,
    "tight": 3,
    "unknown": 4,
    "unavailable": UNAVAILABLE,
}
SEVERITY: Sequence[Outcome] = ("does_not_fit", "invalid", "unavailable", "unknown", "tight")
"""Which outcome of several decides: what is certain, what was not checked, what is in doubt."""

UNSUPPORTED = (NOT_MODELLED.slug, UNSUPPORTED_MODEL.slug)
ANSWERED_ELSEWHERE = (
    UNKNOWN_MODEL.slug,
    GATED_MODEL.slug,
    MODEL_NOT_ALLOWED.slug,
    VERSION_NOT_SERVED.slug,
)
"""No fault of the job: another estimator may know the model, or be of the version that is asked."""


@dataclass(frozen=True, slots=True)
class CheckedJob:
    """One job of a file on one card, and the answer."""

    entry: Entry
    gpu: str
    answer: FitCheckAnswer | Problem

    @property
    def path(self) -> str:
        """The file, with slashes whatever the system, in characters that every format can carry."""
        return readable(self.entry.path.as_posix())

    @property
    def outcome(self) -> Outcome:
        """The verdict, or what a problem means for a gate."""
        answer = self.answer
        if isinstance(answer, FitCheckAnswer):
            return answer.verdict
        slug = answer.type.rpartition("/")[2]
        if slug in UNSUPPORTED:
            return "unknown"
        unanswered = is_unanswered(answer) or slug in ANSWERED_ELSEWHERE
        return "unavailable" if unanswered else "invalid"

    @property
    def allowed(self) -> str | None:
        """The reason with which the caller lets this verdict through."""
        if isinstance(self.answer, Problem) or not self.answer.policy.overridden:
            return None
        return self.answer.policy.overridden[0].reason


@dataclass(frozen=True, slots=True)
class Gate:
    """Which outcomes close the gate."""

    fail_on_tight: bool
    fail_on_error: bool

    def fails(self, case: CheckedJob) -> bool:
        match case.outcome:
            case "fits":
                return False
            case "tight":
                return self.fail_on_tight and case.allowed is None
            case "unknown":
                return case.allowed is None
            case "unavailable":
                return self.fail_on_error
            case _:
                return True

    def exit_code(self, cases: Sequence[CheckedJob]) -> int:
        """The code of the most severe outcome among the cases that fail, else 0."""
        failed = {case.outcome for case in cases if self.fails(case)}
        return next((EXIT_CODES[each] for each in SEVERITY if each in failed), 0)

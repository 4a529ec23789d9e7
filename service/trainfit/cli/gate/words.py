"""What came of a case, in words that every format shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from trainfit.cli.gate.cases import Case
from trainfit.cli.refusals import in_flags
from trainfit.decisions.quantities import gib, gib_range, plain
from trainfit.decisions.words import VERDICTS, changes, suggested
from trainfit.estimator.results import Binding
from trainfit.questions.fit_check import FitCheckAnswer
from trainfit.questions.launches import LAUNCH
from trainfit.questions.problems import Problem
from trainfit.resolve.findings import Finding

WORDS: Mapping[str, str] = {
    **VERDICTS,
    "invalid": "invalid",
    "unavailable": "not checked",
}

SHOWN = 3
"""Suggestions that are told; JSON has them all."""


@dataclass(frozen=True, slots=True)
class Note:
    """Why a case is as it is, at the line of the file that says so."""

    path: Path
    line: int
    text: str


def notes(case: Case) -> list[Note]:
    """At least one for every outcome."""
    answer = case.answer
    if isinstance(answer, Problem):
        return [_note(case, each.pointer, each.line, wrong(each)) for each in answer.errors] or [
            _note(case, "", None, answer.detail)
        ]
    needed = [] if answer.binding is None else [_needs(answer, answer.binding)]
    return [
        *(_note(case, "", None, text) for text in needed),
        *(
            _note(case, each.pointer, each.line, _at(each.pointer, in_flags(each.message)))
            for each in answer.not_modelled
        ),
    ]


def _note(case: Case, pointer: str, line: int | None, text: str) -> Note:
    return Note(*case.entry.place_of(pointer, line), text)


def _at(pointer: str, message: str) -> str:
    """A message with its place; what is said of a launch has it already."""
    return f"{pointer}: {message}" if pointer and not pointer.startswith(LAUNCH) else message


def _needs(check: FitCheckAnswer, binding: Binding) -> str:
    """What the stage that binds needs of what it may have."""
    headroom = check.policy.headroom_bytes
    kept = f" less {gib(headroom)} to stay free" if headroom else ""
    return (
        f"stage {binding.pp_rank} needs {gib_range(binding.device_bytes)} GiB at "
        f"{plain(binding.moment)}, most of all for {plain(binding.component)}; "
        f"{gib(check.usable_bytes)} are usable{kept}"
    )


def advice(case: Case) -> Iterator[str]:
    """What would help most, the best first, and the largest values that fit where asked for."""
    if isinstance(case.answer, Problem):
        return
    yield from map(suggested, case.answer.suggestions[:SHOWN])
    for name, value in asdict(case.answer.limits).items():
        if value is not None:
            yield f"the largest {name} that fits is {value}"


def wrong(finding: Finding) -> str:
    """What is wrong, where, and what would be right."""
    words = _at(finding.pointer, in_flags(finding.message))
    if finding.suggestion:
        words += f"; {changes(finding.suggestion)}"
    if finding.code == "missing" and finding.pointer == "/gpu":
        words += "; --gpu names one for every job"
    return words

"""What came of a case, in words that every format shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from trainfit.api.problems import Problem
from trainfit.cli.gate.cases import Case
from trainfit.decisions.words import VERDICTS, changes, suggested
from trainfit.estimator.results import Binding
from trainfit.fit import FitCheckAnswer
from trainfit.quantities import gib, gib_range, plain
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
    """Why a case is as it is, at the line of its file that says so."""

    pointer: str
    line: int
    text: str


def notes(case: Case) -> list[Note]:
    """At least one for every outcome."""
    answer = case.answer
    if isinstance(answer, Problem):
        errors = [(each.pointer, wrong(each)) for each in answer.errors]
        return _at_lines(case, errors or [("", answer.detail)])
    missing = [(each.pointer, f"{each.pointer}: {each.message}") for each in answer.not_modelled]
    needed = [("", _needs(answer, answer.binding))] if answer.binding is not None else []
    return _at_lines(case, [*needed, *missing])


def _at_lines(case: Case, found: Iterable[tuple[str, str]]) -> list[Note]:
    return [Note(pointer, case.entry.line_of(pointer), text) for pointer, text in found]


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
    words = f"{finding.pointer}: {finding.message}" if finding.pointer else finding.message
    if finding.suggestion:
        words += f"; {changes(finding.suggestion)}"
    if finding.code == "missing" and finding.pointer == "/gpu":
        words += "; --gpu names one for every job"
    return words

"""What came of a case, in words that every format shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from trainfit.cli.gate.cases import CheckedJob
from trainfit.cli.job_files import JobEntry
from trainfit.cli.refusals import as_flag, in_flags, place, typed
from trainfit.decisions.quantities import gib, gib_range, plain
from trainfit.decisions.words import VERDICTS, suggested
from trainfit.estimator.results import Binding, ComponentName
from trainfit.questions.fit_check import FitCheckAnswer
from trainfit.questions.problems import Problem
from trainfit.resolve.findings import Finding

WORDS: Mapping[str, str] = {
    **VERDICTS,
    "invalid": "invalid",
    "unavailable": "not checked",
}

SHOWN = 3
"""Suggestions that are shown; JSON has them all."""


@dataclass(frozen=True, slots=True)
class Note:
    """Why a case is as it is, at the line of the file that says so."""

    path: Path
    line: int
    text: str


def notes(case: CheckedJob) -> list[Note]:
    """At least one for every outcome."""
    answer = case.answer
    if isinstance(answer, Problem):
        return [_note(case, each.pointer, each.line, wrong(each)) for each in answer.errors] or [
            _note(case, "", None, answer.detail)
        ]
    needed: list[Note] = []
    if (binding := answer.binding) is not None:
        needed = [_note(case, *_deciding(case, answer, binding), _needs(answer, binding))]
    return [
        *needed,
        *(
            _note(case, each.pointer, each.line, _at(each.pointer, in_flags(each.message)))
            for each in answer.not_modelled
        ),
    ]


SHARED_OUT = (
    "/parallelism/data_parallel_sharding_strategy",
    "/parallelism/tp",
    "/parallelism/num_gpus",
    "/model/hf_id",
    "/model/spec/hidden_size",
)
MADE_BY_A_STEP = ("/training/micro_batch_size", "/training/seq_length")
DECIDING: Mapping[ComponentName, tuple[str, ...]] = {
    "weights": SHARED_OUT,
    "gradients": SHARED_OUT,
    "optimizer_states": SHARED_OUT,
    "activations": MADE_BY_A_STEP,
    "workspace": MADE_BY_A_STEP,
}
"""The fields that decide most how large a component is, the first before others."""


def _deciding(case: CheckedJob, answer: FitCheckAnswer, binding: Binding) -> tuple[str, int | None]:
    """Where a job or a launch says what decides most of what it needs and may not have, as a
    pointer into what was asked, and the line of a launch; otherwise the whole of it.
    """
    if answer.verdict == "fits":
        return "", None
    pointers = DECIDING.get(binding.component, ())
    if isinstance(case.entry, JobEntry):
        return next(filter(case.entry.says, pointers), ""), None
    for pointer in pointers:
        for each in answer.launch.account.recognised if answer.launch is not None else ():
            if each.line is not None and any(field.pointer == pointer for field in each.became):
                return f"/launch/files/{each.file}", each.line
    return "", None


def _note(case: CheckedJob, pointer: str, line: int | None, text: str) -> Note:
    return Note(*case.entry.place_of(pointer, line), text)


def _at(pointer: str, message: str) -> str:
    """A message with its place; what is said of a launch has it already."""
    return f"{place(pointer)}{message}"


def _needs(check: FitCheckAnswer, binding: Binding) -> str:
    """What the stage that binds needs of what it may have."""
    headroom = check.policy.headroom_bytes
    kept = f" less {gib(headroom)} to stay free" if headroom else ""
    return (
        f"stage {binding.pp_rank} needs {gib_range(binding.device_bytes)} GiB at "
        f"{plain(binding.moment)}, most of all for {plain(binding.component)}; "
        f"{gib(check.usable_bytes)} are usable{kept}"
    )


def advice(case: CheckedJob) -> Iterator[str]:
    """What would help most, the best first, and the largest values that fit where asked for."""
    if isinstance(case.answer, Problem):
        return
    for suggestion in case.answer.suggestions[:SHOWN]:
        yield suggested(suggestion, typed(suggestion.patch))
    for name, value in asdict(case.answer.limits).items():
        if value is not None:
            yield f"the largest {as_flag(f'/training/{name}')} that fits is {value}"


def wrong(finding: Finding) -> str:
    """What is wrong, where, and what would be right."""
    words = _at(finding.pointer, in_flags(finding.message))
    if finding.suggestion:
        words += f"; {typed(finding.suggestion)}"
    if finding.code == "missing" and finding.pointer == "/gpu":
        words += "; --gpu names one for every job"
    return words

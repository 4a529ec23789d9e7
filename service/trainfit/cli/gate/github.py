"""GitHub Actions: annotations on the lines of the job files, and a summary of the step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from trainfit.cli.gate.cases import CheckedJob, Gate
from trainfit.cli.gate.markdown import summary
from trainfit.cli.gate.words import WORDS, advice, notes
from trainfit.cli.job_files import readable

MAX_SUMMARY_BYTES = 512 * 1024
"""GitHub drops the summaries of a step that has more than 1 MiB."""


def workflow_commands(cases: Sequence[CheckedJob], gate: Gate) -> str:
    """A workflow command for every reason why a job does not simply fit, and what there was."""
    lines = [command for case in cases for command in _commands(case, gate)]
    failed = sum(map(gate.fails, cases))
    return "\n".join([*lines, f"trainfit: {len(cases)} checked, {failed} failed"])


def _commands(case: CheckedJob, gate: Gate) -> Iterator[str]:
    if case.outcome == "fits":
        return
    level = "error" if gate.fails(case) else "warning"
    title = f"{case.entry.name} on {case.gpu}: {WORDS[case.outcome]}"
    best = list(advice(case))[:1]
    allowed = [f"allowed: {case.allowed}"] if case.allowed else []
    for note in notes(case):
        path = _property(readable(note.path.as_posix()))
        place = f"file={path},line={note.line},title={_property(title)}"
        text = "\n".join([note.text, *allowed, *best])
        yield f"::{level} {place}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def append_summary(cases: Sequence[CheckedJob], gate: Gate) -> None:
    """Add a table to the step's summary, where the runner says that there is one."""
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if place:
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(summary(cases, gate, MAX_SUMMARY_BYTES))

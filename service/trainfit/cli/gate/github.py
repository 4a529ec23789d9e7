"""GitHub Actions: annotations on the lines of the job files, and a summary of the step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from trainfit.cli.gate.cases import Case, Gate
from trainfit.cli.gate.words import WORDS, advice, notes
from trainfit.cli.job_files import readable

MAX_SUMMARY_BYTES = 512 * 1024
"""GitHub drops the summaries of a step that has more than 1 MiB."""


def workflow_commands(cases: Sequence[Case], gate: Gate) -> str:
    """A workflow command for every reason why a job does not simply fit, and what there was."""
    lines = [command for case in cases for command in _commands(case, gate)]
    failed = sum(map(gate.fails, cases))
    return "\n".join([*lines, f"trainfit: {len(cases)} checked, {failed} failed"])


def _commands(case: Case, gate: Gate) -> Iterator[str]:
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


def append_summary(cases: Sequence[Case], gate: Gate) -> None:
    """Add a table to the step's summary, where the runner says that there is one."""
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if place:
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(summary(cases, gate))


def summary(cases: Sequence[Case], gate: Gate) -> str:
    """A table in Markdown, cut off where GitHub would drop it as too long."""
    text = (
        "### GPU memory\n\n| job | GPU | verdict | why | what would help |\n"
        "| --- | --- | --- | --- | --- |\n"
    )
    size = len(text)
    for index, case in enumerate(cases):
        row = _row(case, gate)
        size += len(row.encode("utf-8", "replace"))
        if size > MAX_SUMMARY_BYTES:
            return f"{text}\n{len(cases) - index} more are not listed.\n"
        text += row
    return f"{text}\n"


def _row(case: Case, gate: Gate) -> str:
    mark = "❌" if gate.fails(case) else "✅" if case.outcome == "fits" else "⚠️"
    allowed = [f"allowed: {case.allowed}"] if case.allowed else []
    why = "\n".join([*(note.text for note in notes(case)), *allowed])
    place = f"{case.entry.name}\n{case.path}:{case.entry.line}"
    cells = place, case.gpu, f"{mark} {WORDS[case.outcome]}", why, "\n".join(advice(case))
    return f"| {' | '.join(map(cell, cells))} |\n"


def cell(text: str) -> str:
    """Text in which no Markdown or HTML takes effect."""
    return text.translate(_ENTITIES).replace("\r", " ").replace("\n", "<br>")


_ENTITIES = {ord(sign): f"&#{ord(sign)};" for sign in "\\`*_[]<>|&~@"}

"""Files of jobs: one job, a list of them, a list under `jobs`, or several YAML documents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainfit.cli.flags import flag_at
from trainfit.documents.document import Document, FileError, parse_documents

JOBS = "jobs"
NAME = "name"
MAX_NAME_LENGTH = 100


@dataclass(frozen=True, slots=True)
class JobEntry:
    """One job of a file: its name there, the job as it would be sent, and where it stands."""

    path: Path
    name: str
    job: dict[str, Any]
    document: Document
    pointer: str

    @property
    def line(self) -> int:
        """The line on which the job begins."""
        return self.document.line_of(self.pointer)

    def place_of(self, pointer: str, _: int | None) -> tuple[Path, int]:
        """The file, and the line of a field of the job under whichever of its names it has."""
        return self.path, self.line_of(pointer)

    def line_of(self, pointer: str) -> int:
        """The line of a field of the job, or of what it would stand in."""
        written = self._written(pointer)
        return self.document.line_of(f"{self.pointer}{pointer}") if written is None else written

    def says(self, pointer: str) -> bool:
        """Whether the file has this field of the job."""
        return self._written(pointer) is not None

    def _written(self, pointer: str) -> int | None:
        """The line of a field of the job, under whichever of its names it is written."""
        flag = flag_at(pointer)
        names = [pointer]
        if flag is not None:
            parent, _, name = flag.pointer.rpartition("/")
            names = [f"{parent}/{each}" for each in (name, *flag.spellings)]
        lines = self.document.lines
        found = (lines.get(f"{self.pointer}{each}") for each in names)
        return next((line for line in found if line is not None), None)


def readable(name: str) -> str:
    """The name of a file without the bytes that are no UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")


def jobs_of(path: Path, text: str) -> list[JobEntry]:
    """The jobs of a file of this text, in their order. Raises FileError where it holds none."""
    found = [
        (document, pointer, job)
        for document in parse_documents(path.suffix, text)
        if document.value is not None
        for pointer, job in _jobs(document)
    ]
    if not found:
        raise FileError("holds no job")
    return [
        _entry(path, document, pointer, job, None if len(found) == 1 else index)
        for index, (document, pointer, job) in enumerate(found)
    ]


def _jobs(document: Document) -> Iterator[tuple[str, Any]]:
    value, start = document.value, ""
    if isinstance(value, dict) and JOBS in value:
        beside = next((key for key in value if key != JOBS), None)
        if beside is not None:
            words = f"{beside!r} stands beside {JOBS!r}; a job says everything itself"
            raise FileError(words, document.line_of(f"/{beside}"))
        value, start = value[JOBS], f"/{JOBS}"
        if not isinstance(value, list):
            raise FileError(f"{JOBS!r} is not a list", document.line_of(start))
    if isinstance(value, list):
        yield from ((f"{start}/{index}", job) for index, job in enumerate(value))
    else:
        yield "", value


def _entry(path: Path, document: Document, pointer: str, job: Any, index: int | None) -> JobEntry:
    if not isinstance(job, dict):
        raise FileError("a job is not an object", document.line_of(pointer))
    given = job.get(NAME)
    if given is not None and not (isinstance(given, str) and 0 < len(given) <= MAX_NAME_LENGTH):
        words = f"{NAME!r} is not text of 1 to {MAX_NAME_LENGTH} characters"
        raise FileError(words, document.line_of(f"{pointer}/{NAME}"))
    stem = readable(path.stem)[:MAX_NAME_LENGTH]
    name = given or (stem if index is None else f"{stem}[{index}]")
    parts = {key: value for key, value in job.items() if key != NAME}
    return JobEntry(path, name, parts, document, pointer)

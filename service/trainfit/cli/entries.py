"""What the files of a command describe: jobs, or launches in their place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from trainfit.cli.files import read_text
from trainfit.cli.job_files import jobs_of, readable
from trainfit.cli.launches import LaunchOptions, sorted_out
from trainfit.cli.overriding import over
from trainfit.documents.document import FileError

NAMED_FILE = "/launch/files/"
"""Before the path of a file of a launch, in the place of its number."""
IN_A_FILE = re.compile(r"/launch/files/(\d+)/")


class Entry(Protocol):
    """A job or a launch as it would be sent, what to call it, and where it stands."""

    @property
    def path(self) -> Path: ...

    @property
    def name(self) -> str: ...

    @property
    def job(self) -> dict[str, Any]: ...

    @property
    def line(self) -> int:
        """The line on which it begins."""
        ...

    def place_of(self, pointer: str, line: int | None) -> tuple[Path, int]:
        """The file and the line of a part of it; `line` is that of a finding, where it has one."""
        ...


@dataclass(frozen=True, slots=True)
class LaunchEntry:
    """A launch of these files, the first of which it is called by."""

    files: Sequence[Path]
    job: dict[str, Any]

    @property
    def path(self) -> Path:
        return self.files[0]

    @property
    def name(self) -> str:
        return readable(self.path.name)

    @property
    def line(self) -> int:
        return 1

    def place_of(self, pointer: str, line: int | None) -> tuple[Path, int]:
        found = IN_A_FILE.match(pointer)
        if found:
            return self.files[int(found[1])], line or 1
        sent = [each["path"] for each in self.job["launch"]["files"]]
        named = pointer.removeprefix(NAMED_FILE)
        return self.files[sent.index(named)] if named in sent else self.path, line or 1


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that could not be read, and why."""

    path: Path
    error: FileError


def read_entries(
    files: Sequence[Path], options: LaunchOptions, given: Mapping[str, Any]
) -> Iterator[Entry | UnreadFile]:
    """The jobs in the order of their files, then the launches, with the values of flags in the
    place of what they say.
    """
    texts: dict[Path, str] = {}
    unread: dict[Path, FileError] = {}
    for path in files:
        try:
            texts[path] = read_text(path)
        except FileError as error:
            unread[path] = error
    jobs, launches = sorted_out(texts)
    for path in files:
        if path in unread:
            yield UnreadFile(path, unread[path])
        elif path in jobs:
            yield from _jobs(path, texts[path], given)
    for group in launches:
        launch = options.launch([(path, texts[path]) for path in group])
        yield LaunchEntry(group, over({"launch": launch}, given))


def _jobs(path: Path, text: str, given: Mapping[str, Any]) -> Iterator[Entry | UnreadFile]:
    try:
        for entry in jobs_of(path, text):
            yield replace(entry, job=over(entry.job, given))
    except FileError as error:
        yield UnreadFile(path, error)

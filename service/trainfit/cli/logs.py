"""Logs of runs, as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from trainfit.cli.errors import RefusedCommandError
from trainfit.measurements.read import read_measurements
from trainfit.specs.artifacts import MAX_TEXT_LENGTH, Artifact, LogFormat

LOGS = frozenset({".err", ".log", ".out"})
LAUNCHED = frozenset({".json", ".py", ".sbatch", ".sh", ".slurm", ".toml", ".yaml", ".yml"})
"""Names of what starts a run, which may well speak of memory."""

ENDS_LENGTH = MAX_TEXT_LENGTH // 4
"""Characters that are read of either end of a log that is too long."""


def artifact(log: Path, format: LogFormat | None = None) -> Artifact:
    """A log. Raises RefusedCommandError where it cannot be read."""
    return Artifact(name=str(log), text=_text(log), format=format)


def is_log(path: Path) -> bool:
    """Whether a file is what a run has printed: it is named like that, or has figures of a run and
    is named like nothing that starts one.
    """
    if path.suffix in LOGS:
        return path.is_file()
    if path.suffix in LAUNCHED or not path.is_file():
        return False
    read = read_measurements([artifact(path)])
    return bool(read.measurements or read.speeds)


def _text(log: Path) -> str:
    """The file; bytes that are no UTF-8 stand for themselves, as logs hold what workers wrote. Of a
    long one what it begins with and its end, in their lines.
    """
    try:
        with log.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_TEXT_LENGTH + 1)
            return text if len(text) <= MAX_TEXT_LENGTH else _ends(log, text, file)
    except OSError as error:
        raise RefusedCommandError(f"trainfit: {log}: {error.strerror}") from None


def _ends(log: Path, text: str, file: TextIO) -> str:
    """What a long log begins with and its end, with as many empty lines between them as it has
    there, which is said on stderr. Raises RefusedCommandError where these are too many, too.
    """
    begin = text.rfind("\n", 0, ENDS_LENGTH) + 1
    head, tail, left_out, chunk = text[:begin], text[begin:], 0, ""
    while True:
        tail += chunk
        end = tail.rfind("\n", 0, max(0, len(tail) - ENDS_LENGTH)) + 1
        left_out, tail = left_out + len(tail[:end].splitlines()), tail[end:]
        if not left_out or left_out + len(head) + len(tail) > MAX_TEXT_LENGTH:
            message = (
                f"trainfit: {log}: longer than {MAX_TEXT_LENGTH} characters; send a part of it"
            )
            raise RefusedCommandError(message)
        if not (chunk := file.read(ENDS_LENGTH)):
            break
    first = len(head.splitlines())
    message = (
        f"trainfit: {log}: lines {first + 1:,} to {first + left_out:,} are left out: it is longer "
        f"than {MAX_TEXT_LENGTH} characters"
    )
    print(message, file=sys.stderr)
    return head + "\n" * left_out + tail

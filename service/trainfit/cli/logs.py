"""Logs of runs, as files."""

from __future__ import annotations

from pathlib import Path

from trainfit.cli.errors import RefusedCommandError
from trainfit.measurements.read import read_measurements
from trainfit.specs.artifacts import MAX_TEXT_LENGTH, Artifact, LogFormat

LOGS = frozenset({".err", ".log", ".out"})
LAUNCHED = frozenset({".json", ".py", ".sbatch", ".sh", ".slurm", ".toml", ".yaml", ".yml"})
"""Names of what starts a run, which may well speak of memory."""


def artifact(log: Path, format: LogFormat | None = None) -> Artifact:
    """A log. Raises RefusedCommandError where it cannot be read or is too long."""
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
    """The file; bytes that are no UTF-8 stand for themselves, as logs hold what workers wrote."""
    try:
        with log.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_TEXT_LENGTH + 1)
    except OSError as error:
        raise RefusedCommandError(f"trainfit: {log}: {error.strerror}") from None
    if len(text) > MAX_TEXT_LENGTH:
        message = f"trainfit: {log}: longer than {MAX_TEXT_LENGTH} characters; send a part of it"
        raise RefusedCommandError(message)
    return text

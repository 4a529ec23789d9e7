"""How a statement ends, and where it sends the shell."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainfit.launch.shell.state import State

Status = int | str
"""The exit status of a command; a text says why it is not known."""


class Jump(Enum):
    """Where a statement sends the shell, other than to the next one."""

    EXIT = auto()
    RETURN = auto()
    BREAK = auto()
    CONTINUE = auto()
    DISCARD = auto()
    """To the next line of the script: an expansion or an assignment that bash refuses."""


class LeftError(Exception):
    """A statement leaves those around it; not a failure."""

    def __init__(self, way: Jump, status: Status = 0, levels: int = 1) -> None:
        self.way = way
        self.status = status
        self.levels = levels
        self.state: State | None = None
        """The shell in the function that was left, where a trap still runs."""


class UnclearError(Exception):
    """It is not known whether a loop or a function goes on."""


def root(what: str, why: str) -> str:
    """Why something is not known; of what rests on another unknown, the first cause alone."""
    return why if " not known: " in why else f"{what}: {why}"

"""How a statement ends, and where it sends the shell."""

from __future__ import annotations

from enum import Enum, auto

Status = bool | str
"""Whether a command succeeds; a text says why that is not known."""


class Way(Enum):
    """Where a statement sends the shell, other than to the next one."""

    EXIT = auto()
    RETURN = auto()
    BREAK = auto()
    CONTINUE = auto()


class LeftError(Exception):
    """A statement leaves those around it; not a failure."""

    def __init__(self, way: Way) -> None:
        self.way = way


class UnclearError(Exception):
    """It is not known whether a loop or a function goes on."""

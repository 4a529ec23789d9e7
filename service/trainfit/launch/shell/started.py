"""What a script starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainfit.launch.shell.piece import Piece


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: its words, and the variables that are exported to it.

    `doubt` says on what it depends whether the command is run at all, where that is not known.
    `files` are those that were written before it, by their paths. What one that is `captured`
    prints is taken by the script, as by $(...). `stdin` is what it may read, where that is known.
    """

    words: tuple[Piece, ...]
    environment: Mapping[str, Piece]
    doubt: str | None = None
    files: Mapping[str, Piece] = field(default_factory=dict)
    captured: bool = False
    stdin: Piece | None = None

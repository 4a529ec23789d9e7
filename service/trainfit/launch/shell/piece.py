"""A text of a script and the place where it was written."""

from __future__ import annotations

from dataclasses import dataclass

NODE = "the name of a node is known only where it runs"
"""Why the name of a node is not known, which is one word whatever it is."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One word of a command line after expansion, or a part of one; `file` is `argv` where it was
    sent as such.

    `unknown` says why a part of the word is not known, and what to give; `text` has that part as it
    was written: ${SEQ_LENGTH}. `pieces` are what the word was put together from, if more than one.
    """

    text: str
    file: str
    line: int | None
    unknown: str | None = None
    pieces: tuple[Piece, ...] = ()

    @property
    def where(self) -> str:
        """The file, and the line where there is one, for a message."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

"""A text to be read as commands, and where each part of it was written."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from trainfit.launch.shell.errors import ShellError
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.text import Text

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

_PLACEHOLDER = re.compile(
    r"\bTO_BE_FILLED\b|"
    r"(?:(?<=[\s=])|^)<(?![\s(])[^<>|&;$`\"'{}()\n]*[^<>|&;$`\"'{}()\s]>(?=[\s/\"'\\_.,:]|$)"
)
"""TO_BE_FILLED or <your path>, as examples have it; what it is to hold is not known. Bash takes the
second for two redirections, of which nobody writes the first so close to the other."""

OPAQUE = "\ue000"
"""Stands in the text for a piece that is not known; no letter of any language."""

MAX_LENGTH = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """A script or a command line; what is not known of it is one sign in `content`."""

    content: str
    _pieces: tuple[Piece, ...]
    _starts: tuple[int, ...]

    @classmethod
    def of_script(cls, content: str, file: str, line: int | None = 1) -> Source:
        """A file. `line` is the number of its first line, or of all of them where `file` has none.

        Raises ShellError.
        """
        return cls.of(Text(tuple(lines_of(Piece(content, file, line)))))

    @classmethod
    def of(cls, text: Text) -> Source:
        """A text that the shell has put together, to be read as commands. Raises ShellError."""
        parts = (part for piece in text.pieces for part in _parted(piece))
        pieces = tuple(piece for piece in parts if piece.text) or text.pieces[:1]
        contents, starts, at = [], [], 0
        for piece in pieces:
            known = piece.unknown is None
            content = piece.text.replace(OPAQUE, "?").replace("\0", "") if known else OPAQUE
            contents.append(content)
            starts.append(at)
            at += len(content)
        if at > MAX_LENGTH:
            raise ShellError(f"a script is longer than {MAX_LENGTH} signs")
        return cls("".join(contents), pieces or (Piece("", "argv", None),), tuple(starts) or (0,))

    @property
    def length(self) -> int:
        return len(self.content)

    def piece(self, at: int) -> Piece:
        """The piece of the text in which this sign stands."""
        return self._pieces[max(bisect_right(self._starts, at) - 1, 0)]

    def place(self, at: int) -> Piece:
        """Where this sign was written, as a word without text."""
        piece = self.piece(min(at, max(len(self.content) - 1, 0)))
        return Piece("", piece.file, piece.line)

    def cut(self, start: int, end: int) -> Iterator[Piece]:
        """What stands between two signs, in pieces."""
        index = max(bisect_right(self._starts, start) - 1, 0)
        while start < end:
            piece = self._pieces[index]
            following = index + 1
            stop = self._starts[following] if following < len(self._starts) else len(self.content)
            stop = min(stop, end)
            if piece.unknown is not None:
                yield piece
            else:
                yield Piece(self.content[start:stop], piece.file, piece.line)
            start, index = stop, following


def _parted(piece: Piece) -> Iterator[Piece]:
    """A piece, with placeholders in it as pieces that are not known."""
    if piece.unknown is not None or not _PLACEHOLDER.search(piece.text):
        yield piece
        return
    at = 0
    for found in _PLACEHOLDER.finditer(piece.text):
        yield Piece(piece.text[at : found.start()], piece.file, piece.line)
        yield Piece(found[0], piece.file, piece.line, f"{found[0]} is to be filled in")
        at = found.end()
    yield Piece(piece.text[at:], piece.file, piece.line)


def lines_of(word: Piece) -> Iterator[Piece]:
    """The lines of a text, each with its number where the first has one."""
    for offset, text in enumerate(_LINE.findall(word.text)):
        line = None if word.line is None else word.line + offset
        yield Piece(text, word.file, line)

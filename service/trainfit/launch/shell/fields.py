"""Words as they come out of an expansion: unquoted text is split as IFS says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from trainfit.launch.shell.piece import NODE, Piece
from trainfit.launch.shell.text import Text

BLANKS = " \t\n"


class FieldPart(NamedTuple):
    piece: Piece
    quoted: bool


class Fields:
    """Collects the stretches of words; `separators` are those of IFS, None where not known."""

    def __init__(self, separators: str | None = BLANKS) -> None:
        self._separators = separators
        self._done: list[list[FieldPart]] = []
        self._current: list[FieldPart] | None = None
        self._after_separator = False

    def add(self, text: Text, *, quoted: bool) -> None:
        """Text that is not split."""
        for piece in text.pieces:
            self._put(FieldPart(piece, quoted))

    def split(self, text: Text) -> None:
        """What an unquoted expansion stands for."""
        for piece in text.pieces:
            if piece.unknown is not None:
                self._put(FieldPart(piece, quoted=False))
            elif self._separators is None and piece.text:
                why = "IFS, which says where it is split, is not known"
                self._put(FieldPart(Piece(piece.text, piece.file, piece.line, why), quoted=False))
            else:
                self._divide(piece, self._separators or "")

    def end(self) -> None:
        """End a word, if one has begun."""
        if self._current is not None:
            self._done.append(self._current)
        self._current = None
        self._after_separator = False

    def stretches(self) -> Sequence[Sequence[FieldPart]]:
        self.end()
        return self._done

    def _put(self, stretch: FieldPart) -> None:
        if not stretch.quoted and not stretch.piece.text and stretch.piece.unknown is None:
            return
        self._after_separator = False
        if self._current is None:
            self._current = []
        self._current.append(stretch)

    def _divide(self, piece: Piece, separators: str) -> None:
        """A run of blanks ends a word; of other separators, each does, with the blanks around."""
        start, text = 0, piece.text
        for index, sign in enumerate(text):
            if sign not in separators:
                continue
            if index > start:
                self._put(FieldPart(_part(piece, start, index), quoted=False))
            start = index + 1
            if sign in BLANKS:
                if self._current is not None:
                    self.end()
                    self._after_separator = True
            elif self._after_separator:
                self._after_separator = False
            else:
                empty = FieldPart(_part(piece, index, index), quoted=True)
                self._current = self._current or [empty]
                self.end()
        if start < len(text):
            self._put(FieldPart(_part(piece, start, len(text)), quoted=False))


def _part(piece: Piece, start: int, end: int) -> Piece:
    if start == 0 and end == len(piece.text):
        return piece
    return Piece(piece.text[start:end], piece.file, piece.line)


ONE_WORD = (None, NODE)
"""Why a piece may not be known that is a word, or a part of one, all the same."""


def text_of(stretches: Sequence[FieldPart]) -> Text:
    """A word as text. It spreads where something in it is neither known nor quoted."""
    if len(stretches) == 1:
        piece, quoted = stretches[0]
        return Text((piece,), piece.unknown not in ONE_WORD and not quoted)
    spreads = any(each.piece.unknown not in ONE_WORD and not each.quoted for each in stretches)
    kept = tuple(put_together([each.piece for each in stretches]))
    return Text(kept or (stretches[0].piece,), spreads)


def put_together(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """What is known and written at one place is one piece: a text that doubles stays one."""
    for (file, line, known), together in groupby(pieces, _place):
        if not known:
            yield from (each for each in together if each.text or each.unknown)
        elif text := "".join([each.text for each in together]):
            yield Piece(text, file, line)


def _place(piece: Piece) -> tuple[str, int | None, bool]:
    return piece.file, piece.line, piece.unknown is None and not piece.pieces

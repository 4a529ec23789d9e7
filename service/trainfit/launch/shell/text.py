"""What a variable of a script holds: text of which each piece has its line and may be unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trainfit.launch.shell.piece import Piece


class NotKnownError(Exception):
    """A value or a condition that what was sent does not tell; the message says what would."""


@dataclass(frozen=True, slots=True)
class Text:
    """A string of the shell in one or more pieces; unknown where one of them is.

    One that `spreads` was not known and not quoted: it may be any number of words.
    """

    pieces: tuple[Piece, ...]
    spreads: bool = False

    @classmethod
    def of_word(cls, word: Piece) -> Text:
        return cls(word.pieces or (word,))

    @classmethod
    def of(cls, text: str, file: str, line: int | None, unknown: str | None = None) -> Text:
        return cls((Piece(text, file, line, unknown),))

    @classmethod
    def at(cls, place: Piece, text: str, unknown: str | None = None) -> Text:
        """Text that is written at a place."""
        return cls((Piece(text, place.file, place.line, unknown),))

    def __str__(self) -> str:
        pieces = self.pieces
        return pieces[0].text if len(pieces) == 1 else "".join([each.text for each in pieces])

    def __add__(self, other: Text) -> Text:
        return Text(self.pieces + other.pieces)

    @property
    def unknown(self) -> str | None:
        for piece in self.pieces:
            if piece.unknown is not None:
                return piece.unknown
        return None

    def known(self) -> str:
        """The string. Raises NotKnownError."""
        if self.unknown is not None:
            raise NotKnownError(self.unknown)
        return str(self)

    def is_empty(self) -> bool:
        """Whether nothing is in it. Raises NotKnownError."""
        if any(piece.text and piece.unknown is None for piece in self.pieces):
            return False
        return self.known() == ""

    def word(self) -> Piece:
        """The word that this is; its place is that of its first piece."""
        first = next((piece for piece in self.pieces if piece.text), self.pieces[0])
        pieces = self.pieces if len(self.pieces) > 1 else ()
        return Piece(str(self), first.file, first.line, self.unknown, pieces)

    def same(self, other: Text) -> bool:
        """Whether both are known to be the same string."""
        return self is other or (
            self.unknown is None and other.unknown is None and str(self) == str(other)
        )

    def lines(self) -> Iterator[Text]:
        """The lines, without what ends them."""
        pieces: list[Piece] = []
        for piece in self.pieces:
            if piece.unknown is not None:
                pieces.append(piece)
                continue
            first, *others = piece.text.split("\n")
            pieces.append(replace(piece, text=first, pieces=()))
            for text in others:
                yield Text(tuple(pieces))
                pieces = [replace(piece, text=text, pieces=())]
        if any(piece.text or piece.unknown is not None for piece in pieces):
            yield Text(tuple(pieces))

    def without_last_lines(self) -> Text:
        """The text without the ends of lines behind it, as a substitution takes it."""
        pieces = list(self.pieces)
        while pieces and pieces[-1].unknown is None:
            text = pieces[-1].text.rstrip("\n")
            if text:
                pieces[-1] = replace(pieces[-1], text=text, pieces=())
                break
            last = pieces.pop()
            if not pieces:
                return Text((replace(last, text="", pieces=()),))
        return Text(tuple(pieces))


def joined(texts: Sequence[Text], separator: Text) -> Text:
    """Texts in one, with a separator between them."""
    if not texts:
        return Text(tuple(replace(piece, text="") for piece in separator.pieces))
    pieces = list(texts[0].pieces)
    for text in texts[1:]:
        pieces += [*separator.pieces, *text.pieces]
    return Text(tuple(pieces))


@dataclass(frozen=True, slots=True)
class Array:
    """An array by the text of each index; of one that is not `keyed`, they are numbers in order."""

    items: Mapping[str, Text]
    keyed: bool = False

    @classmethod
    def of(cls, items: Iterable[Text]) -> Array:
        return cls({str(index): item for index, item in enumerate(items)})

    def extended(self, items: Iterable[Text]) -> Array:
        start = max((int(index) for index in self.items), default=-1) + 1
        return self.with_items({str(index): item for index, item in enumerate(items, start)})

    def with_items(self, items: Mapping[str, Text]) -> Array:
        merged = {**self.items, **items}
        if not self.keyed:
            merged = {key: merged[key] for key in sorted(merged, key=int)}
        return Array(merged, self.keyed)

    def item(self, index: str) -> Text | None:
        """An item; None where there is none. Raises NotKnownError."""
        found = self.items.get(index)
        if found is not None and found.spreads:
            found = Text(found.pieces)
        first = self._first_spreading()
        if first is not None and (self.keyed or int(index) >= int(first)):
            raise NotKnownError(str(self.items[first].unknown))
        return found

    def count(self) -> int:
        """The number of items. Raises NotKnownError."""
        first = self._first_spreading()
        if first is not None:
            raise NotKnownError(str(self.items[first].unknown))
        return len(self.items)

    def listed(self) -> Sequence[Text]:
        """All items. Raises NotKnownError for the order of keys, which bash keeps to itself."""
        if self.keyed and len(self.items) > 1:
            raise NotKnownError("the order of an associative array is known only when it runs")
        return list(self.items.values())

    def _first_spreading(self) -> str | None:
        return next((key for key, item in self.items.items() if item.spreads), None)

    def same(self, other: Array) -> bool:
        return self is other or (
            self.keyed == other.keyed
            and list(self.items) == list(other.items)
            and all(
                one.same(two) and not one.spreads and not two.spreads
                for one, two in zip(self.items.values(), other.items.values(), strict=True)
            )
        )

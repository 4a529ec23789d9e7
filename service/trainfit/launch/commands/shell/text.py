"""What a variable of a script holds: text of which each piece has its line and may be unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trainfit.launch.program import Word
from trainfit.launch.settings import Setting


class NotKnownError(Exception):
    """A value or a condition that what was sent does not tell; the message says what would."""


@dataclass(frozen=True, slots=True)
class Text:
    """A string of the shell in one or more pieces; unknown where one of them is."""

    pieces: tuple[Word, ...]

    @classmethod
    def of_word(cls, word: Word) -> Text:
        return cls(word.pieces or (word,))

    @classmethod
    def of(cls, text: str, file: str, line: int | None, unknown: str | None = None) -> Text:
        return cls((Word(text, file, line, unknown),))

    def __str__(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    def __add__(self, other: Text) -> Text:
        return Text(self.pieces + other.pieces)

    @property
    def unknown(self) -> str | None:
        return next((piece.unknown for piece in self.pieces if piece.unknown is not None), None)

    def known(self) -> str:
        """The string. Raises NotKnownError."""
        if self.unknown is not None:
            raise NotKnownError(self.unknown)
        return str(self)

    def word(self) -> Word:
        """The word that this is; its place is that of its first piece."""
        first = next((piece for piece in self.pieces if piece.text), self.pieces[0])
        pieces = self.pieces if len(self.pieces) > 1 else ()
        return Word(str(self), first.file, first.line, self.unknown, pieces)

    def setting(self, key: str) -> Setting:
        """The setting that this is the value of."""
        return self.word().setting(key)

    def same(self, other: Text) -> bool:
        """Whether both are known to be the same string."""
        return self is other or (
            self.unknown is None and other.unknown is None and str(self) == str(other)
        )


@dataclass(frozen=True, slots=True)
class Array:
    """An array, indexed or associative, by the text of each index."""

    items: Mapping[str, Text]

    @classmethod
    def of(cls, items: Iterable[Text]) -> Array:
        return cls({str(index): item for index, item in enumerate(items)})

    def extended(self, items: Iterable[Text]) -> Array:
        start = max((int(index) for index in self.items if index.isdecimal()), default=-1) + 1
        added = {str(index): item for index, item in enumerate(items, start)}
        return Array({**self.items, **added})

    def same(self, other: Array) -> bool:
        return self is other or (
            list(self.items) == list(other.items)
            and all(
                one.same(two)
                for one, two in zip(self.items.values(), other.items.values(), strict=True)
            )
        )


class Fields:
    """Words as they come out of one expansion: unquoted text is split at blanks."""

    def __init__(self) -> None:
        self._done: list[Text] = []
        self._pieces: list[Word] = []
        self._quoted: Word | None = None

    def add(self, text: Text, *, quoted: bool) -> None:
        for piece in text.pieces:
            if quoted or piece.unknown is not None:
                self._pieces.append(piece)
            else:
                self._split(piece)
        if quoted and self._quoted is None:
            self._quoted = text.pieces[0]

    def end(self) -> None:
        """End a word. One in quotes stands even where it is empty."""
        kept = [piece for piece in self._pieces if piece.text]
        if kept:
            self._done.append(Text(tuple(kept)))
        elif self._quoted is not None:
            self._done.append(Text((self._quoted,)))
        self._pieces, self._quoted = [], None

    def words(self) -> list[Text]:
        self.end()
        return self._done

    def _split(self, piece: Word) -> None:
        for text in _with_blanks(piece.text):
            if text.isspace():
                self.end()
            else:
                self._pieces.append(Word(text, piece.file, piece.line))


def _with_blanks(text: str) -> Iterator[str]:
    """The words of a text and the blanks between them, in turn."""
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or text[index].isspace() != text[start].isspace():
            yield text[start:index]
            start = index

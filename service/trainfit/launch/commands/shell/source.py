"""A text in bash's grammar, and where each part of it was written."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from trainfit.launch.commands.shell.text import Text
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.program import Word

if TYPE_CHECKING:
    from tree_sitter import Language, Node

_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*|[0-9]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")

UNNAMED = "$(...)"
"""Stands for what is not known and has no name, in bash's own grammar."""

MAX_LENGTH = 1 << 20
MAX_REPAIRS = 10

MAX_NESTING = 100
"""Of statements and words within each other; people write ten."""


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed script or command line."""

    root: Node
    _content: bytes = field(repr=False)
    _pieces: tuple[Word, ...]
    _starts: tuple[int, ...] = field(repr=False)
    _written: tuple[Word, ...] = field(default=(), repr=False)
    """The pieces before any were mended."""

    @classmethod
    def of_script(cls, content: str, file: str, line: int | None = 1) -> Source:
        """A file. `line` is the number of its first line, or of all of them where `file` has none.

        Raises LaunchError.
        """
        return cls.of(Text(tuple(_lines(Word(content, file, line)))))

    @classmethod
    def of(cls, text: Text) -> Source:
        """A text that the shell has put together, to be read as commands. Raises LaunchError."""
        source = cls._parsed(text.pieces)
        for _ in range(MAX_REPAIRS):
            misread = source._checked()
            if not misread:
                return replace(source, _written=text.pieces)
            source = cls._parsed(tuple(source._repaired(misread)))
        raise source.complaint(source.root, "the script cannot be read; put ${} around its names")

    @classmethod
    def _parsed(cls, pieces: tuple[Word, ...]) -> Source:
        from tree_sitter import Parser

        content, starts = bytearray(), []
        for piece in pieces:
            starts.append(len(content))
            content += piece.text.encode("utf-8", "replace")
        if len(content) > MAX_LENGTH:
            raise LaunchError(Complaint(f"a script is longer than {MAX_LENGTH} bytes"))
        root = Parser(_bash()).parse(bytes(content)).root_node
        return cls(root, bytes(content), pieces, tuple(starts))

    @property
    def length(self) -> int:
        return len(self._content)

    def piece(self, node: Node) -> Word:
        """The piece of the text in which a node begins: its place, and whether it is known."""
        return self._pieces[bisect_right(self._starts, node.start_byte) - 1]

    def gap(self, before: Node, after: Node) -> str:
        """What stands between two nodes; the first sign of an expansion has the blanks before."""
        gap = self._content[before.end_byte : after.start_byte].decode("utf-8", "replace")
        if after.type in ("simple_expansion", "expansion", "arithmetic_expansion"):
            written = text_of(after)
            gap += written[: len(written) - len(written.lstrip())]
        return gap

    def lines_below(self, node: Node) -> Iterator[Word]:
        """The lines below the one on which a node ends, as they were written; of a text that was
        put together of parts of lines, they are not known.
        """
        last = bisect_right(self._starts, node.end_byte - 1) - 1
        for piece in self._written[last + 1 :]:
            if piece.text.count("\n") != 1 and piece is not self._written[-1]:
                piece = replace(piece, unknown="it is in a text that the script puts together")
            yield piece

    def text(self, text: str, node: Node) -> Text:
        """Text as it was written at a node; each of its lines is a piece."""
        at = self.piece(node)
        return Text(tuple(_lines(Word(text, at.file, at.line))) or (Word("", at.file, at.line),))

    def unknown(self, expression: str, node: Node, why: str) -> Text:
        """A value that is not known, as an expression that stands for it at a node."""
        at = self.piece(node)
        return Text.of(expression, at.file, at.line, why)

    def doubt(self, node: Node) -> str | None:
        """Why a part of what stands at a node is not known: an expansion put an unknown there."""
        first = bisect_right(self._starts, node.start_byte) - 1
        last = bisect_right(self._starts, max(node.start_byte, node.end_byte - 1))
        unknown = (piece.unknown for piece in self._pieces[first:last])
        return next((each for each in unknown if each is not None), None)

    def complaint(self, node: Node, message: str) -> LaunchError:
        at = self.piece(node)
        where = at.file if at.line is None else f"{at.file}:{at.line}"
        return LaunchError(Complaint(f"{where}: {message}", at.file, at.line))

    def _checked(self) -> list[int]:
        """Where the grammar misses a name behind $, as in a/$B/$C/d, and begins a new word with it.

        Raises LaunchError where the script is nested too deeply.
        """
        misread: list[int] = []
        level = [self.root]
        for _ in range(MAX_NESTING):
            misread += (
                node.start_byte
                for node in level
                if node.type == "$"
                and node.parent is not None
                and node.parent.type == "concatenation"
                and _NAME.match(self._content, node.end_byte)
            )
            level = [child for node in level for child in node.children]
            if not level:
                return misread
        raise self.complaint(level[0], "the script is nested too deeply to be read")

    def _repaired(self, places: list[int]) -> Iterator[Word]:
        """The pieces with ${} around the names that are misread."""
        within: dict[int, list[int]] = defaultdict(list)
        for place in sorted(places, reverse=True):
            index = bisect_right(self._starts, place) - 1
            within[index].append(place - self._starts[index])
        for index, piece in enumerate(self._pieces):
            content = piece.text.encode("utf-8", "replace")
            for at in within[index]:
                if found := _NAME.match(content, at + 1):
                    content = b"%b${%b}%b" % (content[:at], found[0], content[found.end() :])
            yield replace(piece, text=content.decode("utf-8", "replace"))


def text_of(node: Node) -> str:
    """The text of a node as it was written."""
    return (node.text or b"").decode("utf-8", "replace")


def _lines(word: Word) -> Iterator[Word]:
    """The lines of a text, each with its number where the first has one."""
    for offset, text in enumerate(_LINE.findall(word.text)):
        line = None if word.line is None else word.line + offset
        yield Word(text, word.file, line)


@cache
def _bash() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())

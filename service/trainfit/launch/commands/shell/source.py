"""A text in bash's grammar, and where each part of it was written."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from trainfit.launch.commands.shell.text import Text
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.program import Word

if TYPE_CHECKING:
    from tree_sitter import Language, Node

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

UNNAMED = "$(...)"
"""Stands for what is not known and has no name, in bash's own grammar."""

MAX_LENGTH = 1 << 20
MAX_NESTING = 100
"""Of statements and words within each other; people write ten."""


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed script or command line."""

    root: Node
    _content: bytes = field(repr=False)
    _pieces: tuple[Word, ...]
    _starts: tuple[int, ...] = field(repr=False)

    @classmethod
    def of_script(cls, content: str, file: str, line: int | None = 1) -> Source:
        """A file. `line` is the number of its first line, or of all of them where `file` has none.

        Raises LaunchError.
        """
        return cls.of(Text(tuple(_lines(Word(content, file, line)))))

    @classmethod
    def of(cls, text: Text) -> Source:
        """A text that the shell has put together, to be read as commands. Raises LaunchError."""
        from tree_sitter import Parser

        pieces = text.pieces or (Word("", "argv", None),)
        content, starts = bytearray(), []
        for piece in pieces:
            starts.append(len(content))
            content += piece.text.encode("utf-8", "replace")
        if len(content) > MAX_LENGTH:
            raise LaunchError(Complaint(f"a script is longer than {MAX_LENGTH} bytes"))
        root = Parser(_bash()).parse(bytes(content)).root_node
        source = cls(root, bytes(content), pieces, tuple(starts))
        source._check_nesting()
        return source

    def piece(self, node: Node) -> Word:
        """The piece of the text in which a node begins: its place, and whether it is known."""
        return self._pieces[bisect_right(self._starts, node.start_byte) - 1]

    def gap(self, before: Node, after: Node) -> str:
        """What stands between two nodes; the first sign of an expansion has the blanks before."""
        gap = self._content[before.end_byte : after.start_byte].decode("utf-8", "replace")
        if after.type in ("simple_expansion", "expansion"):
            written = text_of(after)
            gap += written[: len(written) - len(written.lstrip())]
        return gap

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

    def _check_nesting(self) -> None:
        level = [self.root]
        for _ in range(MAX_NESTING):
            level = [child for node in level for child in node.children]
            if not level:
                return
        raise self.complaint(level[0], "the script is nested too deeply to be read")


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

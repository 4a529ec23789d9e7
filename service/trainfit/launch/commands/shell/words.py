"""Expansion of words: quotes, variables, arrays, arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainfit.launch.commands.shell import arithmetic, parameters
from trainfit.launch.commands.shell.source import UNNAMED, Source, text_of
from trainfit.launch.commands.shell.state import Budget, State
from trainfit.launch.commands.shell.text import Array, Fields, NotKnownError, Text

if TYPE_CHECKING:
    from tree_sitter import Node

_ESCAPE = re.compile(r"\\(\n|.)", re.DOTALL)
_QUOTED_ESCAPE = re.compile(r"\\([$`\"\\\n])")
_ANSI_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "e": "\x1b", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_GLOB = re.compile(r"[*?\[]")

Values = Text | Sequence[Text]
"""What an expansion stands for: one text, or the items of an array, each a word in quotes."""


class Expander:
    """Expands the words of a source in a state of the shell."""

    def __init__(self, source: Source, state: State, budget: Budget) -> None:
        self.source = source
        self.state = state
        self.budget = budget
        self._unset_is_empty = False

    def words(self, nodes: Iterable[Node]) -> list[Text]:
        """The words that these stand for; those of an array and of unquoted text are many."""
        words: list[Text] = []
        for node in nodes:
            fields = Fields()
            self.expand(node, fields, quoted=False)
            found = fields.words()
            for text in found or (None,):
                self.budget.spend(len(str(text or "")))
            words += found
        return words

    def value(self, node: Node) -> Text:
        """One text, not split, as it is assigned to a variable."""
        fields = Fields()
        self.expand(node, fields, quoted=True)
        text = joined(fields.words(), self.source.text(" ", node))
        self.budget.spend(len(str(text)))
        return text

    @contextmanager
    def unset_is_empty(self) -> Iterator[None]:
        """What asks whether a variable is set takes one that nobody gave as not set."""
        self._unset_is_empty = True
        try:
            yield
        finally:
            self._unset_is_empty = False

    def pattern(self, node: Node) -> str:
        """A pattern that file names are matched with; what is quoted stands for itself.

        Raises NotKnownError.
        """
        match node.type:
            case "concatenation":
                return "".join(self.pattern(child) for child in node.children)
            case "string" | "raw_string" | "ansi_c_string" | "translated_string":
                return _GLOB.sub(r"[\g<0>]", self.value(node).known())
            case _:
                return self.value(node).known()

    def variable(self, name: str, node: Node) -> Text:
        """The text of a variable, unknown where it is not set."""
        value = self.state.get(name)
        if isinstance(value, Array):
            value = value.items.get("0")
        return self.missing(name, node) if value is None else value

    def missing(self, name: str, node: Node) -> Text:
        """What a variable stands for that is not set."""
        may_be_empty = self._unset_is_empty and not name.isdecimal()
        if may_be_empty or self.state.is_empty(name):
            return self.source.text("", node)
        return self.source.unknown(f"${{{name}}}", node, self.state.unset(name))

    def expand(self, node: Node, fields: Fields, *, quoted: bool) -> None:
        """Put what a node stands for behind the fields so far."""
        match node.type:
            case "concatenation" | "command_name":
                for child in node.children:
                    self.expand(child, fields, quoted=quoted)
            case "string":
                self._string(node, fields)
            case "translated_string":
                self._string(node.children[-1], fields)
            case "raw_string":
                self._literal(node, text_of(node)[1:-1], fields, quoted=True)
            case "ansi_c_string":
                text = _ANSI_ESCAPE.sub(
                    lambda found: _ANSI.get(found[1], found[1]), text_of(node)[2:-1]
                )
                self._literal(node, text, fields, quoted=True)
            case "simple_expansion" | "expansion":
                self._expansion(node, fields, quoted)
            case "arithmetic_expansion":
                fields.add(self._arithmetic(node), quoted=quoted)
            case "command_substitution" | "process_substitution" | "ERROR":
                fields.add(self._output(node), quoted=quoted)
            case _:
                text = _ESCAPE.sub(_unescaped, text_of(node))
                self._literal(node, text, fields, quoted=quoted or "\\" in text_of(node))

    def between(self, nodes: Sequence[Node], fields: Fields, *, quoted: bool) -> None:
        """Expand what stands in a row, with the blanks between that the grammar leaves out."""
        for index, node in enumerate(nodes):
            if index:
                self._gap(nodes[index - 1], node, fields, quoted=quoted)
            self.expand(node, fields, quoted=quoted)

    def _gap(self, before: Node, after: Node, fields: Fields, *, quoted: bool) -> None:
        gap = self.source.gap(before, after)
        if gap:
            fields.add(self.source.text(gap, after), quoted=quoted)

    def _string(self, node: Node, fields: Fields) -> None:
        opening, *inner, closing = node.children
        if len(inner) == 0:
            gap = text_of(node)[1:-1]
            fields.add(self.source.text(gap, node), quoted=True)
        for index, child in enumerate(inner):
            self._gap(inner[index - 1] if index else opening, child, fields, quoted=True)
            if child.type == "string_content":
                text = _QUOTED_ESCAPE.sub(_unescaped, text_of(child))
                self._literal(child, text, fields, quoted=True)
            else:
                self.expand(child, fields, quoted=True)
        if inner:
            self._gap(inner[-1], closing, fields, quoted=True)

    def _literal(self, node: Node, text: str, fields: Fields, *, quoted: bool) -> None:
        doubt = self.source.doubt(node)
        if doubt is not None:
            at = self.source.piece(node)
            fields.add(Text.of(text, at.file, at.line, doubt), quoted=quoted)
        else:
            fields.add(self.source.text(text, node), quoted=quoted)

    def _expansion(self, node: Node, fields: Fields, quoted: bool) -> None:
        piece = self.source.piece(node)
        if piece.unknown is not None:
            fields.add(Text((piece,)), quoted=quoted)
            return
        values = parameters.expanded(node, self, fields, quoted=quoted)
        if isinstance(values, Text):
            fields.add(values, quoted=quoted)
        elif quoted and parameters.is_joined(node):
            fields.add(joined(values, self.source.text(" ", node)), quoted=True)
        else:
            for index, text in enumerate(values):
                if index:
                    fields.end()
                fields.add(text, quoted=quoted)

    def _arithmetic(self, node: Node) -> Text:
        at = self.source.piece(node)
        try:
            return Text.of(str(arithmetic.evaluate(node, self)), at.file, at.line)
        except NotKnownError as why:
            return self.source.unknown(UNNAMED, node, str(why))

    def _output(self, node: Node) -> Text:
        piece = self.source.piece(node)
        if piece.unknown is not None:
            return Text((piece,))
        command = " ".join(text_of(node).split())
        short = command if len(command) <= 60 else f"{command[:56]}...{command[-1]}"
        why = f"{short} is not run; write what it prints in its place"
        return self.source.unknown(UNNAMED, node, why)


def joined(texts: Sequence[Text], blank: Text) -> Text:
    """Texts in one, with blanks between."""
    if not texts:
        return Text(tuple(type(piece)("", piece.file, piece.line) for piece in blank.pieces))
    pieces = list(texts[0].pieces)
    for text in texts[1:]:
        pieces += [*blank.pieces, *text.pieces]
    return Text(tuple(pieces))


def _unescaped(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]

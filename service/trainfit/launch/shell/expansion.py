"""Expansion of words: quotes, variables, arrays, arithmetic, substitutions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn, Protocol

from trainfit.launch.shell import arithmetic, braces, parameters, patterns
from trainfit.launch.shell.arithmetic import BadExpressionError
from trainfit.launch.shell.fields import BLANKS, FieldPart, Fields, text_of
from trainfit.launch.shell.patterns import Pattern, Quotable
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.state import DYNAMIC, LIVE, Budget, State
from trainfit.launch.shell.syntax import (
    Arithmetic,
    Literal,
    Parameter,
    Part,
    Quoted,
    Substitution,
    Word,
)
from trainfit.launch.shell.text import Array, NotKnownError, Text, joined
from trainfit.launch.shell.texts import Texts

UNNAMED = "$(...)"
"""Stands for what is not known and has no name."""

_GLOB = re.compile(r"[*?]|\[.+\]|[+@!]\(.*\)", re.DOTALL)
_NAMED = re.compile(r"-|[^*?\[/]*=|\w+://|[^*?\[./][^./]*\Z")
"""A word that no file is named like: an option, key=value, an address, layers as M-M*M-."""

_UNARY = re.compile(r"-[a-zA-Z]")
_JOINING = frozenset(("", "-a", "-o", "(", ")", "!", "[", "]", "test"))


class Shell(Protocol):
    """The shell in which words are expanded."""

    state: State
    budget: Budget
    texts: Texts

    def output(self, substitution: Substitution) -> Text:
        """What the commands of a substitution print."""

    def status_text(self) -> str:
        """$?. Raises NotKnownError."""

    def refused(self, place: Piece, why: str) -> NoReturn:
        """What bash does with an expansion that it refuses."""

    def ends(self, place: Piece, why: str) -> NoReturn:
        """An expansion that ends the script."""

    def supposed(self, place: Piece) -> None:
        """The script may end here, and is taken to go on."""

    def may_be_refused(self, place: Piece, why: str) -> None:
        """Bash may refuse an expansion here."""

    def forget(self, names: Sequence[str], place: Piece, why: str) -> None:
        """Take these variables to be set to something that is not known."""

    def assign(
        self, name: str, value: Text | Array, place: Piece, index: str | None = None
    ) -> None:
        """Give a variable a value."""


class Expander:
    """Expands the words of a script in a state of the shell."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self._unset_is_empty = False
        self._place = Piece("", "", None)
        self._answers: list[str] | None = None
        """Why an expression may be refused that is a question: its status says so then."""

    @property
    def state(self) -> State:
        return self.shell.state

    def words(self, nodes: Iterable[Word]) -> list[Text]:
        """The words that these stand for; those of an array and of unquoted text are many."""
        known, budget = self.shell.texts.words, self.shell.budget
        noglob = "noglob" in self.state.options
        words: list[Text] = []
        for node in nodes:
            words += known(node, budget, noglob, self._word)
        return words

    def _word(self, node: Word) -> Sequence[Text]:
        words: list[Text] = []
        for word in braces.expanded(node, self.shell.budget.spend):
            for stretches in self._fields(word):
                text = self._matched(stretches)
                self.shell.budget.spend(len(str(text)) + len(text.pieces))
                words.append(text)
        return words

    def asked(self, nodes: Sequence[Word]) -> list[Text]:
        """The words of a test command. Where it asks whether a variable is set, one that nobody
        gave is not.
        """
        words: list[Text] = []
        bare = ["", *(node.bare or "" for node in nodes), ""]
        for before, node, after in zip(bare, nodes, bare[2:], strict=False):
            stands_alone = before in _JOINING and after in _JOINING
            if stands_alone or (_UNARY.fullmatch(before) and before not in _JOINING):
                with self.unset_is_empty():
                    words += self.words([node])
            else:
                words += self.words([node])
        return words

    def value(self, node: Word, *, quoted: bool = False) -> Text:
        """One text, not split, as it is assigned to a variable."""

        def value(word: Word) -> Sequence[Text]:
            return (self._value(word, quoted=quoted),)

        return self.shell.texts.words(node, self.shell.budget, None, value)[0]

    def _value(self, node: Word, *, quoted: bool) -> Text:
        fields = Fields("")
        for part in node.parts:
            is_all = isinstance(part, Parameter) and parameters.is_all(part)
            self.expand(part, fields, quoted=quoted or is_all)
        texts = [Text(text_of(each).pieces) for each in fields.stretches()]
        text = joined(texts, Text.at(node.place, " "))
        self.shell.budget.spend(len(str(text)) + len(text.pieces))
        return text

    def pattern(self, node: Word) -> Sequence[Quotable]:
        """The signs of a pattern; what is quoted stands for itself. Raises NotKnownError."""
        fields = Fields("")
        for part in node.parts:
            self.expand(part, fields, quoted=False)
        signs: list[Quotable] = []
        for index, stretches in enumerate(fields.stretches()):
            if index:
                signs.append(Quotable(" ", quoted=False))
            for piece, quoted in stretches:
                signs += [Quotable(sign, quoted) for sign in Text((piece,)).known()]
        return signs

    def compiled(self, node: Word, *, extended: bool | None = None) -> Pattern:
        """A pattern that is matched with text. Raises NotKnownError."""
        if self.state.on("nocasematch"):
            raise NotKnownError("a pattern in which case does not count is not read")
        extended = self.state.on("extglob") if extended is None else extended
        return patterns.compiled(self.pattern(node), extended=extended)

    @contextmanager
    def unset_is_empty(self) -> Iterator[None]:
        """What asks whether a variable is set takes one that nobody gave as not set."""
        self._unset_is_empty = True
        try:
            yield
        finally:
            self._unset_is_empty = False

    def variable(self, name: str, place: Piece) -> Text:
        """The text of a variable, unknown where it is not set. Raises NotKnownError."""
        found = self.state.get(name)
        if isinstance(found, Array):
            found = found.item("0")
        return self.missing(name, place) if found is None else found

    def missing(self, name: str, place: Piece) -> Text:
        """What a variable stands for that is not set."""
        if name in DYNAMIC:
            raise NotKnownError(f"${name} is known only while the script runs")
        if name == "IFS":
            return Text.at(place, BLANKS)
        if self.state.is_empty(name):
            if self.state.on("nounset"):
                self.shell.ends(place, f"{name} is not set, and set -u is on")
            return Text.at(place, "")
        if self.state.on("nounset"):
            self.shell.supposed(place)
        if self._unset_is_empty and not name.isdecimal() and name not in LIVE:
            return Text.at(place, "")
        return Text.at(place, f"${{{name}}}", self.state.unset(name))

    def number(self, node: Word) -> int:
        """The value of an expression. Raises NotKnownError."""
        return self.calculated(self.value(node, quoted=True), node.place)

    def calculated(self, expression: Text, place: Piece) -> int:
        """The value of an expression; one that bash refuses sends it to the next line.

        Raises NotKnownError.
        """
        self._place = place
        try:
            return self._evaluated(expression)
        except BadExpressionError as why:
            self.shell.refused(place, str(why))

    def answered(self, expression: Text, place: Piece) -> int:
        """The value of an expression that is asked for its status, which tells a refused one.

        Raises NotKnownError and RefusedError.
        """
        self._place = place
        outer, self._answers = self._answers, []
        try:
            value = self._evaluated(expression)
            if self._answers:
                raise NotKnownError(self._answers[0])
            return value
        finally:
            self._answers = outer

    def _evaluated(self, expression: Text) -> int:
        self.shell.budget.spend(len(str(expression)))
        if expression.unknown is None:
            return arithmetic.evaluate(str(expression), self)
        if _is_number(expression):
            raise NotKnownError(expression.unknown)
        if _is_made_of_statuses(expression):
            self.shell.forget(arithmetic.assigned(str(expression)), self._place, expression.unknown)
            raise NotKnownError(expression.unknown)
        arithmetic.not_read(str(expression), self, expression.unknown)
        raise NotKnownError(expression.unknown)

    def number_text(self, name: str, index: str | None) -> str:
        """A variable of an expression."""
        variable = self.state.variables.get(name)
        if index is not None and variable is not None and variable.keyed:
            raise NotKnownError(f"an item of {name} in an expression is not read")
        found = self.state.get(name)
        if isinstance(found, Array):
            found = found.item(_from_end(found, index or "0"))
            found = Text.at(self._place, "0") if found is None else found
        elif found is None:
            found = self.missing(name, self._place)
        elif index not in (None, "0"):
            found = Text.at(self._place, "0")
        merged = str(found) == f"${{{name}}}" and name in self.state.variables
        if found.unknown is not None and (merged or not _is_number(found)):
            self.may_be_refused(found.unknown)
            if self.state.on("nounset"):
                self.shell.supposed(self._place)
        return found.known()

    def set_number(self, name: str, index: str | None, value: int | None, why: str) -> None:
        """What an expression assigns."""
        if self._answers:
            self.may_set(name, self._answers[0])
        elif value is None:
            self.shell.assign(name, Text.at(self._place, UNNAMED, why), self._place, index)
        else:
            self.shell.assign(name, Text.at(self._place, str(value)), self._place, index)

    def may_set(self, name: str, why: str) -> None:
        """What an expression may assign."""
        self.shell.forget([name], self._place, why)

    def may_be_refused(self, why: str) -> None:
        """Where an expression may be refused."""
        if self._answers is None:
            self.shell.may_be_refused(self._place, why)
        else:
            self._answers.append(why)

    def expand(self, part: Part, fields: Fields, *, quoted: bool) -> None:
        """Put what a part of a word stands for behind the fields so far."""
        match part:
            case Literal():
                fields.add(Text(part.pieces), quoted=quoted or part.quoted)
            case Quoted():
                self._quoted(part, fields)
            case Parameter():
                self._parameter(part, fields, quoted=quoted)
            case Arithmetic():
                self._split(self._calculation(part), fields, quoted=quoted)
            case Substitution():
                self._split(self.shell.output(part), fields, quoted=quoted)

    def operand(self, word: Word, fields: Fields, *, quoted: bool) -> None:
        """Put the word of ${X:-word} behind the fields; what is not quoted of it is split."""
        for part in word.parts:
            if isinstance(part, Literal) and not part.quoted and not quoted:
                fields.split(Text(part.pieces))
            else:
                self.expand(part, fields, quoted=quoted)
        if quoted:
            fields.add(Text.at(word.place, ""), quoted=True)

    def _quoted(self, part: Quoted, fields: Fields) -> None:
        if not part.parts:
            fields.add(Text.at(part.place, ""), quoted=True)
        for inner in part.parts:
            self.expand(inner, fields, quoted=True)

    def _split(self, text: Text, fields: Fields, *, quoted: bool) -> None:
        if quoted and not text.spreads:
            fields.add(text, quoted=True)
        else:
            fields.split(text)

    def _parameter(self, part: Parameter, fields: Fields, *, quoted: bool) -> None:
        try:
            values = parameters.expanded(part, self, fields, quoted=quoted)
        except NotKnownError as why:
            values = Text.at(part.place, part.written, str(why))
        if values is None:
            return
        if isinstance(values, Text):
            self._split(Text(values.pieces), fields, quoted=quoted)
            return
        if parameters.is_joined(part) and quoted:
            fields.add(joined(values, Text.at(part.place, self.separator())), quoted=True)
            return
        between = "" if quoted else (self._separators() or "")[:1]
        for index, text in enumerate(values):
            if index and between:
                fields.split(Text.at(part.place, between))
            elif index:
                fields.end()
            self._split(text, fields, quoted=quoted)

    def separator(self) -> str:
        """What "$*" puts between its items. Raises NotKnownError."""
        separators = self._separators()
        if separators is None:
            raise NotKnownError("IFS is not known")
        return separators[:1]

    def _calculation(self, part: Arithmetic) -> Text:
        text = self.value(part.expression, quoted=True)
        try:
            return Text.at(part.place, str(self.calculated(text, part.place)))
        except NotKnownError as why:
            return Text.at(part.place, UNNAMED, str(why))

    def _separators(self) -> str | None:
        found = self.state.get("IFS")
        if found is None:
            return BLANKS
        if isinstance(found, Text) and found.unknown is None:
            return str(found)
        return None

    def _fields(self, word: Word) -> Sequence[Sequence[FieldPart]]:
        fields = Fields(self._separators())
        for part in word.parts:
            self.expand(part, fields, quoted=False)
        return fields.stretches()

    def _matched(self, stretches: Sequence[FieldPart]) -> Text:
        """A word that is not a pattern of file names; which files there are is not known."""
        text = text_of(stretches)
        open_ = "".join("\0" if each.quoted else each.piece.text for each in stretches)
        found = _GLOB.search(open_)
        if found is None or _NAMED.match(str(text)) or "noglob" in self.state.options:
            return text
        why = f"which files {text} matches is known only where it runs; name them"
        return Text(
            tuple(
                piece if piece.unknown is not None else replace(piece, unknown=why)
                for piece in text.pieces
            ),
            spreads=True,
        )


def _is_number(text: Text) -> bool:
    """Whether what is not known is taken to be a number where one is asked for: what somebody is to
    give or a program prints, but not what may be any of several values of the script.
    """
    return len(text.pieces) == 1 and not text.spreads


def _is_made_of_statuses(expression: Text) -> bool:
    """Whether nothing but statuses is not known of an expression, and it divides by none."""
    unknown = (piece.text for piece in expression.pieces if piece.unknown is not None)
    divides = any(sign in str(expression) for sign in ("/", "%", "**"))
    return not divides and all(text in ("$?", "${?}") for text in unknown)


def _from_end(array: Array, index: str) -> str:
    """The index of an item that is counted from the end of an array. Raises NotKnownError."""
    if not index.startswith("-"):
        return index
    array.count()
    number = int(index) + max(map(int, array.items), default=-1) + 1
    if number < 0:
        raise NotKnownError("an index is before the first item")
    return str(number)

"""Conditions as [ ], [[ ]] and test decide them, as far as the script itself decides them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from trainfit.launch.shell import arithmetic, regular
from trainfit.launch.shell.expansion import Expander
from trainfit.launch.shell.patterns import matches
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.state import DYNAMIC, LIVE, State, Variable
from trainfit.launch.shell.syntax import (
    Both,
    Condition,
    ConditionalPrimary,
    Either,
    Not,
    Test,
    Word,
)
from trainfit.launch.shell.text import Array, NotKnownError, Text

_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}
_TEXTS: Mapping[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_OF_FILES = frozenset(("-nt", "-ot", "-ef"))
_THERE = frozenset(("-e", "-f", "-r"))
_UNARY = frozenset(f"-{letter}" for letter in "abcdefghknoprstuvwxzGLNORS")


class MistakenError(Exception):
    """Words that are no condition: the status is 2."""


def words_hold(words: Sequence[Text], state: State) -> bool:
    """Whether `test` with these words succeeds. Raises NotKnownError and MistakenError."""
    for text in words:
        if text.spreads:
            text.known()
    return _Words(words, state).hold()


class _Words:
    """The words of `test`, read as POSIX tells by their number, and as bash beyond that."""

    def __init__(self, words: Sequence[Text], state: State) -> None:
        self._words = words
        self._signs = [str(text) if text.unknown is None else "" for text in words]
        self._state = state
        self._at = 0

    def hold(self) -> bool:
        return self._all(0, len(self._words))

    def _all(self, start: int, end: int) -> bool:
        signs = self._signs[start:end]
        match end - start:
            case 0:
                return False
            case 1:
                return not self._words[start].is_empty()
            case 2:
                return self._two(start)
            case 3:
                return self._three(start)
            case 4 if signs[0] == "!":
                return not self._three(start + 1)
            case 4 if signs[0] == "(" and signs[3] == ")":
                return self._two(start + 1)
            case _:
                self._at = start
                held = self._either(end)
                if self._at != end:
                    raise MistakenError
                return held

    def _two(self, at: int) -> bool:
        if self._signs[at] == "!":
            return self._words[at + 1].is_empty()
        if self._signs[at] in _UNARY:
            return _unary(self._signs[at], self._words[at + 1], self._state)
        self._words[at].known()
        raise MistakenError

    def _three(self, at: int) -> bool:
        sign = self._signs[at + 1]
        self._words[at + 1].known()
        if _is_binary(sign):
            return _binary(self._words[at], sign, self._words[at + 2])
        if sign in ("-a", "-o"):
            one, two = self._words[at], self._words[at + 2]
            return _either(
                lambda: not one.is_empty(), lambda: not two.is_empty(), sought=sign == "-o"
            )
        if self._signs[at] == "!":
            return not self._two(at + 1)
        if self._signs[at] == "(" and self._signs[at + 2] == ")":
            return not self._words[at + 1].is_empty()
        raise MistakenError

    def _either(self, end: int) -> bool:
        held = self._both(end)
        if self._at < end and self._signs[self._at] == "-o":
            self._at += 1
            other = self._either(end)
            return held or other
        return held

    def _both(self, end: int) -> bool:
        held = self._term(end)
        if self._at < end and self._signs[self._at] == "-a":
            self._at += 1
            other = self._both(end)
            return held and other
        return held

    def _term(self, end: int) -> bool:
        at = self._at
        if at >= end:
            raise MistakenError
        if self._signs[at] == "!":
            self._at += 1
            return not self._term(end)
        if self._signs[at] == "(":
            self._at += 1
            held = self._either(end)
            if self._at >= end or self._signs[self._at] != ")":
                raise MistakenError
            self._at += 1
            return held
        if at + 3 <= end and _is_binary(self._signs[at + 1]):
            self._at += 3
            return _binary(self._words[at], self._signs[at + 1], self._words[at + 2])
        if at + 2 <= end and self._signs[at] in _UNARY:
            self._at += 2
            return _unary(self._signs[at], self._words[at + 1], self._state)
        self._at += 1
        return not self._words[at].is_empty()


def _is_binary(sign: str) -> bool:
    return sign in _TEXTS or sign in _NUMBERS or sign in _OF_FILES


def _binary(one: Text, sign: str, two: Text) -> bool:
    if sign in _TEXTS:
        return _TEXTS[sign](one.known(), two.known())
    if sign in _OF_FILES:
        raise NotKnownError(f"the files of {one} {sign} {two} are not here")
    numbers = [arithmetic.integer(text.known()) for text in (one, two)]
    if numbers[0] is None or numbers[1] is None:
        raise MistakenError
    return _NUMBERS[sign](numbers[0], numbers[1])


def _unary(sign: str, text: Text, state: State) -> bool:
    match sign:
        case "-n":
            return not text.is_empty()
        case "-z":
            return text.is_empty()
        case "-v":
            return _is_set(text.known(), state)
        case "-o":
            return state.on(text.known())
        case _:
            if text.unknown is None and str(text) == "" and sign not in ("-t", "-R"):
                return False
            if sign in _THERE and text.unknown is None and state.has(str(text)):
                return True
            raise NotKnownError(f"the condition {sign} {text} is not decided by the script")


def _is_set(name: str, state: State) -> bool:
    if name.isdecimal():
        if state.parameters is None:
            raise NotKnownError(state.unset(name))
        return state.parameter(int(name)) is not None
    variable = state.variables.get(name, Variable(None))
    if not name.isidentifier() or name in DYNAMIC or variable.reference:
        raise NotKnownError(f"whether {name} is set is not read")
    if isinstance(variable.value, Array):
        return variable.value.item("0") is not None
    if variable.value is None and name in LIVE:
        raise NotKnownError(state.unset(name))
    if variable.value is not None and variable.value.unknown is not None:
        raise NotKnownError(variable.value.unknown)  # what it was to be set to may be refused
    return variable.value is not None


def holds(condition: Condition, shell: Expander) -> bool:
    """Whether [[ ]] succeeds. Raises NotKnownError, and RefusedError for what is no number."""
    return _holds(condition.test, shell)


def _holds(test: Test, shell: Expander) -> bool:
    match test:
        case Not(inner):
            return not _holds(inner, shell)
        case Both(left, right):
            return not _either(
                lambda: not _holds(left, shell), lambda: not _holds(right, shell), sought=True
            )
        case Either(left, right):
            return _either(lambda: _holds(left, shell), lambda: _holds(right, shell), sought=True)
        case ConditionalPrimary(sign, (word,)):
            with shell.unset_is_empty():
                return _unary(sign or "-n", shell.value(word), shell.state)
        case ConditionalPrimary(sign, (one, two)):
            return _compared(one, sign, two, shell)
        case _:
            raise NotKnownError("a condition is not read")


def _compared(one: Word, sign: str, two: Word, shell: Expander) -> bool:
    left = shell.value(one)
    match sign:
        case "=" | "==" | "!=":
            pattern = shell.compiled(two, extended=True)
            return matches(left.known(), pattern) == (sign != "!=")
        case "=~":
            return _matched(left, two, shell)
        case "<" | ">":
            return _sorted(left.known(), sign, shell.value(two).known())
        case _ if sign in _OF_FILES:
            raise NotKnownError(f"the files of a {sign} are not here")
        case _:
            numbers = [shell.answered(text, one.place) for text in (left, shell.value(two))]
            return _NUMBERS[sign](numbers[0], numbers[1])


def _sorted(one: str, sign: str, two: str) -> bool:
    """The order of two texts, where no locale disputes it."""
    found = _TEXTS[sign](one, two)
    alike = one.isalnum() and two.isalnum() and one.isascii() and two.isascii()
    if one and two and (not alike or found != _TEXTS[sign](one.lower(), two.lower())):
        raise NotKnownError(f"the order of {one} and {two} is a matter of the locale")
    return found


def _matched(left: Text, right: Word, shell: Expander) -> bool:
    """=~, which sets BASH_REMATCH."""
    place = Piece("", right.place.file, right.place.line)
    try:
        if shell.state.on("nocasematch"):
            raise NotKnownError("a regular expression in which case does not count is not read")
        found = regular.matched(left.known(), shell.pattern(right))
    except NotKnownError as why:
        lost = Text.at(place, "${BASH_REMATCH}", str(why))
        shell.shell.assign("BASH_REMATCH", Text(lost.pieces, spreads=True), place)
        raise
    if found is None:
        shell.shell.assign("BASH_REMATCH", Array({}), place)
        return False
    groups = [
        Text.at(place, text) if why is None else Text.at(place, "${BASH_REMATCH}", why)
        for text, why in found
    ]
    shell.shell.assign("BASH_REMATCH", Array.of(groups), place)
    return True


def _either(one: Callable[[], bool], two: Callable[[], bool], *, sought: bool) -> bool:
    """Whether one of two holds, or with `sought` False both do, where that may be known though
    one of them is not.
    """
    try:
        first = one()
    except NotKnownError:
        if two() == sought:
            return sought
        raise
    return first if first == sought else two()

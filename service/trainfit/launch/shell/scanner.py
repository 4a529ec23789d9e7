"""Words of bash's grammar: quotes, escapes, expansions, and where they end."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from trainfit.launch.shell.errors import ShellError
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.source import Source, lines_of
from trainfit.launch.shell.syntax import (
    Arithmetic,
    CommandList,
    Literal,
    Parameter,
    Part,
    Quoted,
    Substitution,
    Word,
)
from trainfit.launch.shell.text import Text

MAX_NESTING = 40
"""Of commands and words within each other; people write ten."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_AFTER_DOLLAR = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!-]")
_LENGTH = re.compile(r"#(?=(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])[\[}])")
_OPERATOR = re.compile(r":[-=+?]|[-=+?]|##?|%%?|/[/#%]?|\^\^?|,,?|@|:")
_ANSI = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})"
    r"|U([0-9a-fA-F]{1,8})|c(.)|(.))",
    re.DOTALL,
)
_ANSI_SIGNS: Mapping[str, str] = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


class MisreadError(Exception):
    """A text that does not read as bash, and where."""

    def __init__(self, place: Piece, message: str) -> None:
        self.place = place
        self.message = message


@dataclass(frozen=True, slots=True)
class _Mode:
    """How a stretch of text is read: what runs on as it is, and what else is special in it."""

    plain: re.Pattern[str]
    quoted: bool
    """Whether it stands between double quotes, or is read as if it did."""
    escapes: str | None
    """What a backslash takes its meaning from; None for anything."""
    quotes: bool = True
    """Whether double quotes begin a part."""


_WORD = _Mode(re.compile(r"[^\s;&|()<>'\"\\$`\ue000]+"), quoted=False, escapes=None)
_BRACED = _Mode(re.compile(r"[^'\"\\$`}/:\](){\ue000]+"), quoted=False, escapes=None)
_DOUBLE = _Mode(re.compile(r"[^\"\\$`\ue000]+"), quoted=True, escapes='$`"\\\n', quotes=False)
_BRACED_DOUBLE = _Mode(re.compile(r"[^'\"\\$`}/:\](){\ue000]+"), quoted=True, escapes='$`"\\\n}/')
_HERE = _Mode(re.compile(r"[^\\$`\ue000]+"), quoted=True, escapes="$`\\\n", quotes=False)
_ARITHMETIC = _Mode(
    re.compile(r"[^\"\\$`\ue000:;}\]\[(){?]+"), quoted=True, escapes='$`"\\\n', quotes=False
)
_REGULAR = _Mode(re.compile(r"[^\s'\"\\$`\ue000()&;<>|]+"), quoted=False, escapes=None)


class Scanner(ABC):
    """Reads words of a source, one sign after the other."""

    def __init__(self, source: Source, depth: int = 0) -> None:
        self.source = source
        self.text = source.content
        self.at = 0
        self.mentioned: list[str] = []
        """The variables of the expansions that were read."""
        self._depth = depth

    @abstractmethod
    def substituted(self) -> CommandList:
        """The commands up to the bracket that ends a substitution."""

    @abstractmethod
    def within(self, source: Source) -> Scanner:
        """What reads a text inside this one."""

    @abstractmethod
    def whole(self) -> CommandList:
        """All commands of the text."""

    def fail(self, message: str) -> MisreadError:
        return MisreadError(self.place(), message)

    def place(self, at: int | None = None) -> Piece:
        return self.source.place(self.at if at is None else at)

    def sign(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.text[at] if at < len(self.text) else ""

    def follows(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def not_followed(self, at: Piece, message: str) -> ShellError:
        """What bash may read, and is not read here."""
        return ShellError(message, at)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Raises ShellError where the text is nested too deeply to be read."""
        self._check_depth(self._depth)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def _check_depth(self, depth: int) -> None:
        if depth >= MAX_NESTING:
            message = f"the script is nested more than {MAX_NESTING} levels deep"
            raise self.not_followed(self.place(), message)

    def word(self) -> Word:
        """The word that begins here."""
        place = self.place()
        return Word(tuple(self._parts(_WORD, "")), place)

    def regular(self) -> Word:
        """A regular expression of [[ ]], in which brackets and | stand for themselves."""
        place, parts, depth = self.place(), list[Part](), 0
        while (sign := self.sign()) and (depth or sign not in " \t\n;&<>"):
            if sign in "()|" or (sign in " \t\n;&<>" and depth):
                depth += {"(": 1, ")": -1}.get(sign, 0)
                if depth < 0:
                    break
                if sign == "|" and not depth and self.sign(1) == "|":
                    break
                parts.append(self._literal(self.at, self.at + 1, quoted=False))
                self.at += 1
            else:
                parts += self._parts(_REGULAR, "")
        return Word(tuple(parts), place)

    def arithmetic(self, ends: str) -> Word:
        """An expression up to one of these signs outside of its brackets."""
        place = self.place()
        return Word(tuple(self._balanced(_ARITHMETIC, ends)), place)

    def here(self) -> Word:
        """All of the text as a here-document."""
        place = self.place()
        return Word(tuple(self._parts(_HERE, "")), place)

    def subscript(self) -> Word:
        """The index behind [, up to its bracket."""
        place = self.place()
        with self.deeper():
            parts = tuple(self._balanced(_BRACED, "]"))
            self._past("]")
        return Word(parts, place)

    def _past(self, text: str) -> None:
        if not self.follows(text):
            raise self.fail(f"lacks a {text}")
        self.at += len(text)

    def _literal(self, start: int, end: int, *, quoted: bool) -> Literal:
        return Literal(tuple(self.source.cut(start, end)), quoted)

    def _sign(self, text: str, at: int) -> Literal:
        """Quoted text that is written in another way."""
        return Literal((replace(self.place(at), text=text),), quoted=True)

    def _balanced(self, mode: _Mode, ends: str) -> Iterator[Part]:
        """Parts up to an end outside of brackets, and outside of ? and : where : is one."""
        depth, asked = 0, 0
        while self.at < len(self.text):
            sign = self.sign()
            if depth == 0 and sign in ends and not (sign == ":" and asked):
                return
            if sign in "([{":
                self._check_depth(depth)
                depth += 1
            elif sign in ")]}":
                depth -= 1
            elif sign == "?" and depth == 0:
                asked += 1
            elif sign == ":":
                asked -= 1
            yield from self._one(mode, alone=True)
        raise self.fail(f"lacks a {ends[:1]}")

    def _parts(self, mode: _Mode, ends: str) -> Iterator[Part]:
        """Parts of a word; without ends, up to where a word of this mode cannot go on."""
        while self.at < len(self.text):
            if self.sign() in ends if ends else self._stops(mode):
                return
            yield from self._one(mode, alone=bool(ends))
        if ends:
            raise self.fail(f"lacks a {ends[-1]}")

    def _stops(self, mode: _Mode) -> bool:
        sign = self.sign()
        if mode is _HERE:
            return False
        if mode is _REGULAR:
            return sign in " \t\n()&;<>|"
        if sign in "<>" and self.sign(1) == "(":
            return False
        return sign in " \t\n;&|()<>"

    def _one(self, mode: _Mode, *, alone: bool) -> Iterator[Part]:
        """The part that begins here. Where `alone`, a sign that is special may stand for itself."""
        run = mode.plain.match(self.text, self.at)
        if run is not None:
            self.at = run.end()
            yield self._literal(run.start(), run.end(), quoted=mode.quoted)
            return
        sign, start = self.sign(), self.at
        if sign == "\\":
            yield from self._escape(mode)
        elif sign == "$":
            yield from self._dollar(mode)
        elif sign == "`":
            yield self._backquoted(mode)
        elif sign == '"' and mode is _ARITHMETIC:
            self.at += 1
        elif sign == '"' and mode.quotes:
            yield self._double()
        elif sign == "'" and not mode.quoted:
            yield self._single()
        elif sign in "<>" and self.sign(1) == "(" and not alone:
            yield self._substitution(sign)
        else:
            self.at += 1
            yield self._literal(start, self.at, quoted=mode.quoted)

    def _escape(self, mode: _Mode) -> Iterator[Part]:
        start, following = self.at, self.sign(1)
        if not following:
            self.at += 1
            yield self._literal(start, self.at, quoted=True)
        elif mode.escapes is None or following in mode.escapes:
            self.at += 2
            if following != "\n":
                yield self._literal(start + 1, self.at, quoted=True)
        else:
            self.at += 1
            yield self._literal(start, self.at, quoted=True)

    def _single(self) -> Part:
        start = self.at + 1
        end = self.text.find("'", start)
        if end < 0:
            raise self.fail("lacks a '")
        self.at = end + 1
        if start == end:
            return self._sign("", start)
        return self._literal(start, end, quoted=True)

    def _double(self) -> Quoted:
        place = self.place()
        self.at += 1
        with self.deeper():
            parts = tuple(self._parts(_DOUBLE, '"'))
        self._past('"')
        return Quoted(parts, place)

    def _ansi(self) -> Literal:
        """$'...'"""
        start = self.at
        end = start + 2
        while self.text[end : end + 1] not in ("'", ""):
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise self.fail("lacks a '")
        self.at = end + 1
        text = _ANSI.sub(_unescaped, self.text[start + 2 : end]).partition("\0")[0]
        first, *others = tuple(lines_of(replace(self.place(start), text=text))) or (
            self.place(start),
        )
        return Literal((first, *others), quoted=True)

    def _dollar(self, mode: _Mode) -> Iterator[Part]:
        start, following = self.at, self.sign(1)
        if following == "(":
            if self.sign(2) == "(" and (end := self._end_of_arithmetic(3)) is not None:
                yield self._expression(3, end, "))")
            else:
                self.at += 1
                yield self._substitution("")
        elif following == "[":
            self.at += 2
            with self.deeper():
                expression = self.arithmetic("]")
                self._past("]")
            yield Arithmetic(expression, self.place(start))
        elif following == "{":
            yield self._braced(mode)
        elif following == "'" and not mode.quoted:
            yield self._ansi()
        elif following == '"' and not mode.quoted:
            self.at += 1
            yield self._double()
        elif found := _AFTER_DOLLAR.match(self.text, start + 1):
            self.at = found.end()
            self.mentioned.append(found[0])
            yield Parameter(found[0], self.place(start), f"${found[0]}")
        else:
            self.at += 1
            yield self._literal(start, self.at, quoted=mode.quoted)

    def _end_of_arithmetic(self, ahead: int) -> int | None:
        """Where )) closes what (( opened, if it does."""
        depth, at = 0, self.at + ahead
        while at < len(self.text):
            sign = self.text[at]
            if sign == "\\":
                at += 1
            elif sign == "'" or sign == '"':
                at = self.text.find(sign, at + 1)
                if at < 0:
                    return None
            elif sign == "(":
                depth += 1
            elif sign == ")":
                if depth == 0:
                    return at if self.text.startswith("))", at) else None
                depth -= 1
            at += 1
        return None

    def _expression(self, ahead: int, end: int, closing: str) -> Arithmetic:
        """What stands up to there as an expression."""
        place = self.place()
        self.at += ahead
        with self.deeper():
            expression = self.arithmetic(closing[:1])
        if self.at != end:
            raise self.fail("is an expression that is not read")
        self.at += len(closing)
        return Arithmetic(expression, place)

    def _substitution(self, arrow: str) -> Substitution:
        start, place = self.at, self.place()
        self.at += 2 if arrow else 1
        with self.deeper():
            body = self.substituted()
        self._past(")")
        written = ("" if arrow else "$") + self.text[start : self.at]
        return Substitution(body, place, written, arrow)

    def _backquoted(self, mode: _Mode) -> Substitution:
        start = end = self.at + 1
        while self.text[end : end + 1] not in ("`", ""):
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise self.fail("lacks a `")
        place, written = self.place(), self.text[start - 1 : end + 1]
        self.at = end + 1
        inner = self.text[start:end]
        pieces = tuple(self.source.cut(start, end))
        if "\\" in inner:
            signs = r"\\([$`\\\"])" if mode.quoted else r"\\([$`\\])"
            if any(piece.unknown is not None for piece in pieces):
                raise self.fail("has a ` that is not read")
            text = re.sub(signs, r"\1", inner)
            pieces = tuple(lines_of(replace(self.place(start), text=text)))
        with self.deeper():
            scanner = self.within(Source.of(Text(pieces or (place,))))
            body = scanner.whole()
        self.mentioned += scanner.mentioned
        return Substitution(body, place, written)

    def _braced(self, mode: _Mode) -> Parameter:
        """${...}"""
        start, place = self.at, self.place()
        self.at += 2
        with self.deeper():
            found = self._named(place, mode)
        self._past("}")
        return replace(found, written=self.text[start : self.at])

    def _named(self, place: Piece, mode: _Mode) -> Parameter:
        prefix = ""
        if found := _LENGTH.match(self.text, self.at):
            prefix, self.at = "#", found.end()
        elif self.follows("!") and _PARAMETER.match(self.text, self.at + 1):
            prefix = "!"
            self.at += 1
        named = _PARAMETER.match(self.text, self.at)
        if named is None:
            return self._bad(place)
        name, self.at = named[0], named.end()
        self.mentioned.append(name)
        index = None
        if self.follows("[") and _NAME.fullmatch(name):
            self.at += 1
            index = self.subscript()
        parameter = Parameter(name, place, "", prefix, index)
        if self.follows("}"):
            return parameter
        if prefix == "!" and (self.follows("*}") or self.follows("@}")):
            self.at += 1
            return replace(parameter, operator="names")
        operator = _OPERATOR.match(self.text, self.at)
        if operator is None or prefix == "#":
            return self._bad(place)
        self.at = operator.end()
        return self._operands(replace(parameter, operator=operator[0]), mode)

    def _operands(self, parameter: Parameter, mode: _Mode) -> Parameter:
        operator = parameter.operator
        if operator == ":":
            return self._divided(parameter, _ARITHMETIC, ":")
        inner = _BRACED_DOUBLE if mode.quoted else _BRACED
        if operator[0] in "#%/^,":
            inner = _BRACED
        if operator[0] == "/":
            return self._divided(parameter, inner, "/")
        return replace(parameter, operand=self._until(inner, "}"))

    def _divided(self, parameter: Parameter, mode: _Mode, sign: str) -> Parameter:
        """Two operands with a sign between; the second may be left out."""
        if mode is _ARITHMETIC:
            first = self.arithmetic(f"{sign}}}")
        else:
            first = self._until(mode, f"{sign}}}")
        if not self.follows(sign):
            return replace(parameter, operand=first)
        self.at += 1
        second = self.arithmetic("}") if mode is _ARITHMETIC else self._until(mode, "}")
        return replace(parameter, operand=first, second=second)

    def _until(self, mode: _Mode, ends: str) -> Word:
        place = self.place()
        return Word(tuple(self._parts(mode, ends)), place)

    def _bad(self, place: Piece) -> Parameter:
        """An expansion that bash refuses once it comes to it."""
        tuple(self._balanced(_BRACED, "}"))
        return Parameter("", place, "", operator="bad")


def _unescaped(found: re.Match[str]) -> str:
    sign, octal, hexadecimal, short, long, control, other = found.groups()
    if sign is not None:
        return _ANSI_SIGNS.get(sign, sign)
    if octal is not None:
        return chr(int(octal, 8) & 0xFF)
    for digits in (hexadecimal, short, long):
        if digits is not None:
            return chr(min(int(digits, 16), 0x10FFFF))
    if control is not None:
        return chr(ord(control.upper()) & 0x1F)
    return f"\\{other}"

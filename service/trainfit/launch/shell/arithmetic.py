"""Arithmetic of the shell on whole numbers of 64 bits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn, Protocol

from trainfit.launch.shell.text import NotKnownError

MAX_DEPTH = 30
"""Brackets and variables whose values are expressions, within each other."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9][0-9a-zA-Z_@#]*)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>\*\*|<<=|>>=|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^<>=!~?:(),\[\]])"
    r"|(?P<end>\Z)|(?P<other>.))",
    re.DOTALL,
)
_NUMBER = re.compile(r"0[xX](?P<hex>[0-9a-fA-F]*)|(?P<base>\d+)#(?P<digits>[0-9a-zA-Z_@]+)|\d+")
_ASSIGNED = re.compile(
    r"([A-Za-z_]\w*)(?:\[[^]]*\])?\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)"
    r"|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)
_PLAIN = re.compile(r"\d{1,18}")


class TooDeepError(NotKnownError):
    """An expression that is nested deeper than is followed."""


class BadExpressionError(Exception):
    """An expression that bash refuses: a syntax error, a division by zero."""


class VariableLookup(Protocol):
    """Where an expression looks its variables up, and what it sets."""

    def number_text(self, name: str, index: str | None) -> str:
        """The value of a variable, which is an expression again. Raises NotKnownError."""

    def set_number(self, name: str, index: str | None, value: int | None, why: str) -> None:
        """Give a variable a value; None where it is not known, with why."""

    def may_set(self, name: str, why: str) -> None:
        """Take a variable to be set to something, or to stay what it is."""

    def may_be_refused(self, why: str) -> None:
        """Bash may refuse the expression here: what it sets later may stay as it is."""


def evaluate(expression: str, variables: VariableLookup) -> int:
    """The value of an expression. Raises NotKnownError, or RefusedError as bash would."""
    if _PLAIN.fullmatch(expression) and not expression.startswith("0"):
        return int(expression)
    try:
        evaluation = _Evaluation(expression, variables, 0)
        value = evaluation.value()
    except TooDeepError as why:
        not_read(expression, variables, str(why))
        raise
    if value is None:
        raise NotKnownError(evaluation.why)
    return value


def not_read(expression: str, variables: VariableLookup, why: str) -> None:
    """Take an expression of which not all is known to set what it may."""
    variables.may_be_refused(why)
    for name in assigned(expression):
        variables.may_set(name, why)


def assigned(expression: str) -> list[str]:
    """The names that an expression sets, or may set."""
    return [one or two for one, two in _ASSIGNED.findall(expression)]


def integer(text: str) -> int | None:
    """A number as `test` and `shift` read it, in decimals; None where it is none."""
    text = text.strip(" \t\n")
    if not re.fullmatch(r"[-+]?[0-9]{1,19}", text):
        return None
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else None


def wrapped(value: int) -> int:
    """Into 64 bits with a sign."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _divided(one: int, two: int) -> int:
    """Towards zero, as C divides."""
    if two == 0:
        raise BadExpressionError("it divides by zero")
    quotient = abs(one) // abs(two)
    return quotient if (one < 0) == (two < 0) else -quotient


def _power(one: int, two: int) -> int:
    if two < 0:
        raise BadExpressionError("it raises to a negative power")
    return pow(one, two, 1 << 64)


_BINARY: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda one, two: one + two,
    "-": lambda one, two: one - two,
    "*": lambda one, two: one * two,
    "/": _divided,
    "%": lambda one, two: one - two * _divided(one, two),
    "**": _power,
    "<<": lambda one, two: one << (two % 64),
    ">>": lambda one, two: one >> (two % 64),
    "&": lambda one, two: one & two,
    "|": lambda one, two: one | two,
    "^": lambda one, two: one ^ two,
    "<": lambda one, two: one < two,
    ">": lambda one, two: one > two,
    "<=": lambda one, two: one <= two,
    ">=": lambda one, two: one >= two,
    "==": lambda one, two: one == two,
    "!=": lambda one, two: one != two,
}
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""What binds loosest stands first; && and || are loser, ** binds closer."""


Number = int | None
"""None where it is not known."""


class _Evaluation:
    """One expression while it is evaluated.

    What is skipped has no effect and no value; what is set by what may be skipped is not known.
    """

    def __init__(
        self, text: str, variables: VariableLookup, depth: int, *, perhaps: str | None = None
    ) -> None:
        if depth > MAX_DEPTH:
            raise TooDeepError(f"an expression is nested more than {MAX_DEPTH} levels deep")
        self._tokens = [
            (found.lastgroup or "end", found[found.lastgroup or 0].strip())
            for found in _TOKEN.finditer(text)
        ]
        self._variables = variables
        self._depth = depth
        self._at = 0
        self._skips = 0
        self._perhaps = perhaps
        """Why it is not known whether what stands here is skipped."""
        self.why = ""
        """Why a value is not known."""

    def value(self) -> Number:
        if self._kind == "end":
            return 0
        value = self._comma()
        if self._kind != "end":
            self._refuse()
        return value

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def _text(self) -> str:
        return self._tokens[self._at][1]

    def _refuse(self) -> NoReturn:
        raise BadExpressionError("it is no expression")

    def _take(self, *signs: str) -> str | None:
        kind, text = self._tokens[self._at]
        if kind == "sign" and text in signs:
            self._at += 1
            return text
        return None

    def _comma(self) -> Number:
        value = self._assignment()
        while self._take(","):
            value = self._assignment()
        return value

    def _assignment(self) -> Number:
        start = self._at
        target = self._target()
        if target is not None:
            operator = self._take("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|=")
            if operator is not None:
                before = 0 if operator == "=" else self._looked_up(*target)
                value = self._assignment()
                if operator != "=":
                    value = self._applied(operator[:-1], before, value)
                self._set(*target, value)
                return value
        self._at = start
        return self._ternary()

    def _target(self) -> _Target | None:
        """A name, and its index."""
        if self._kind != "name":
            return None
        name = self._text
        self._at += 1
        if not self._take("["):
            return _Target(name, None)
        index = self._nested(self._comma)
        if not self._take("]"):
            self._refuse()
        return _Target(name, "?" if index is None else str(index))

    def _ternary(self) -> Number:
        condition = self._either()
        if not self._take("?"):
            return condition
        chosen = self._skipped(self._comma, None if condition is None else not condition)
        if not self._take(":"):
            self._refuse()
        other = self._skipped(self._ternary, None if condition is None else bool(condition))
        if condition is None:
            return None
        return chosen if condition else other

    def _nested(self, read: Callable[[], Number]) -> Number:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooDeepError(f"an expression is nested more than {MAX_DEPTH} levels deep")
        value = read()
        self._depth -= 1
        return value

    def _skipped(self, read: Callable[[], Number], skips: bool | None) -> Number:
        """A part that is skipped, or is not; with None, that is not known."""
        outer = self._perhaps
        if skips is None:
            self._perhaps = outer or self.why
        self._skips += skips is True
        value = self._nested(read)
        self._skips -= skips is True
        self._perhaps = outer
        return value

    def _either(self) -> Number:
        value = self._both()
        while self._take("||"):
            right = self._skipped(self._both, None if value is None else bool(value))
            value = _any(value, right)
        return value

    def _both(self) -> Number:
        value = self._level(0)
        while self._take("&&"):
            right = self._skipped(lambda: self._level(0), None if value is None else not value)
            value = _inverse(_any(_inverse(value), _inverse(right)))
        return value

    def _level(self, level: int) -> Number:
        if level == len(_LEVELS):
            return self._powers()
        value = self._level(level + 1)
        while (operator := self._take(*_LEVELS[level])) is not None:
            value = self._applied(operator, value, self._level(level + 1))
        return value

    def _powers(self) -> Number:
        value = self._unary()
        if self._take("**"):
            return self._applied("**", value, self._nested(self._powers))
        return value

    def _applied(self, operator: str, one: Number, two: Number) -> Number:
        if self._skips:
            return 0
        try:
            if one is not None and two is not None:
                return wrapped(int(_BINARY[operator](one, two)))
            if two is not None:
                _BINARY[operator](1, two)
            elif operator in ("/", "%", "**"):
                self._variables.may_be_refused(self.why)
        except BadExpressionError as why:
            if self._perhaps is None:
                raise
            self._variables.may_be_refused(str(why))
            self.why = self.why or str(why)
        return None

    def _unary(self) -> Number:
        operator = self._take("!", "~", "-", "+")
        if operator is not None:
            value = self._nested(self._unary)
            if value is None:
                return None
            return {
                "!": int(not value),
                "~": ~value,
                "-": wrapped(-value),
                "+": value,
            }[operator]
        step = self._take("++", "--")
        if step is not None:
            target = self._target()
            if target is None:
                return self._nested(self._unary)
            value = _stepped(self._looked_up(*target), step)
            self._set(*target, value)
            return value
        return self._primary()

    def _primary(self) -> Number:
        if self._take("("):
            value = self._nested(self._comma)
            if not self._take(")"):
                self._refuse()
            return value
        if self._kind == "number":
            self._at += 1
            return _number(self._tokens[self._at - 1][1])
        target = self._target()
        if target is None:
            self._refuse()
        value = self._looked_up(*target)
        step = self._take("++", "--")
        if step is not None:
            self._set(*target, _stepped(value, step))
        return value

    def _looked_up(self, name: str, index: str | None) -> Number:
        if self._skips:
            return 0
        if index == "?":
            return None
        try:
            text = self._variables.number_text(name, index)
            if _PLAIN.fullmatch(text) and not text.startswith("0"):
                return int(text)
            inner = _Evaluation(text, self._variables, self._depth + 1, perhaps=self._perhaps)
            value = inner.value()
            self.why = self.why or inner.why
        except TooDeepError:
            raise
        except NotKnownError as why:
            self.why = self.why or str(why)
            return None
        except BadExpressionError as why:
            if self._perhaps is None:
                raise
            self._variables.may_be_refused(str(why))
            self.why = self.why or str(why)
            return None
        return value

    def _set(self, name: str, index: str | None, value: Number) -> None:
        if self._skips:
            return
        if self._perhaps is not None or index == "?":
            self._variables.may_set(name, self._perhaps or self.why)
        else:
            self._variables.set_number(name, index, value, self.why)


class _Target(NamedTuple):
    """A variable of an expression; of an item whose index is not known, the index is ?."""

    name: str
    at: str | None


def _inverse(value: Number) -> Number:
    return None if value is None else int(not value)


def _any(one: Number, two: Number) -> Number:
    """Whether one of two is not zero."""
    if one or two:
        return 1
    return None if one is None or two is None else 0


def _stepped(value: Number, step: str) -> Number:
    return None if value is None else wrapped(value + (1 if step == "++" else -1))


def _number(text: str) -> int:
    """A constant: decimal, octal behind 0, hexadecimal behind 0x, or base#digits."""
    found = _NUMBER.fullmatch(text)
    if found is None or len(text) > 80:
        raise BadExpressionError(f"{text} is not a number")
    if found["hex"] is not None:
        return wrapped(int(found["hex"] or "0", 16))
    if found["base"] is None:
        base, digits = (8 if text.startswith("0") else 10), text
    else:
        base, digits = int(found["base"]), found["digits"]
        if not 2 <= base <= 64:
            raise BadExpressionError(f"{base} is no base")
    value = 0
    for sign in digits:
        digit = _digit(sign, base)
        if digit >= base:
            raise BadExpressionError(f"{text} has a digit too great for its base")
        value = value * base + digit
    return wrapped(value)


def _digit(sign: str, base: int) -> int:
    """0-9, a-z, A-Z, @ and _; up to base 36 case does not count."""
    if sign.isdigit():
        return int(sign)
    if "a" <= sign <= "z" or ("A" <= sign <= "Z" and base <= 36):
        return ord(sign.lower()) - ord("a") + 10
    if "A" <= sign <= "Z":
        return ord(sign) - ord("A") + 36
    return 62 if sign == "@" else 63

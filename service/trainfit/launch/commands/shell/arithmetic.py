"""Arithmetic of the shell on whole numbers of 64 bits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NoReturn, Protocol

from trainfit.launch.commands.shell.text import NotKnownError

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


class RefusedError(Exception):
    """An expression that bash refuses: a syntax error, a division by zero."""


class Variables(Protocol):
    """Where an expression looks its variables up, and what it sets."""

    def number_text(self, name: str, index: str | None) -> str:
        """The value of a variable, which is an expression again. Raises NotKnownError."""

    def set_number(self, name: str, index: str | None, value: int) -> None:
        """Give a variable a value."""


def evaluate(expression: str, variables: Variables) -> int:
    """The value of an expression. Raises NotKnownError, or RefusedError as bash would."""
    if _PLAIN.fullmatch(expression) and not expression.startswith("0"):
        return int(expression)
    return _Evaluation(expression, variables, 0).value()


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
        raise RefusedError("it divides by zero")
    quotient = abs(one) // abs(two)
    return quotient if (one < 0) == (two < 0) else -quotient


def _power(one: int, two: int) -> int:
    if two < 0:
        raise RefusedError("it raises to a negative power")
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


class _Evaluation:
    """One expression while it is evaluated; what is skipped has no effect and no value."""

    def __init__(self, text: str, variables: Variables, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise NotKnownError(f"an expression is nested more than {MAX_DEPTH} levels deep")
        self._tokens = [
            (found.lastgroup or "end", found[found.lastgroup or 0].strip())
            for found in _TOKEN.finditer(text)
        ]
        self._variables = variables
        self._depth = depth
        self._at = 0
        self._skips = 0
        self._not_known: NotKnownError | None = None

    def value(self) -> int:
        if self._kind == "end":
            return 0
        value = self._comma()
        if self._kind != "end":
            self._refuse()
        if self._not_known is not None:
            raise self._not_known
        return value

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def _text(self) -> str:
        return self._tokens[self._at][1]

    def _refuse(self) -> NoReturn:
        raise RefusedError("it is no expression")

    def _take(self, *signs: str) -> str | None:
        kind, text = self._tokens[self._at]
        if kind == "sign" and text in signs:
            self._at += 1
            return text
        return None

    def _comma(self) -> int:
        value = self._assignment()
        while self._take(","):
            value = self._assignment()
        return value

    def _assignment(self) -> int:
        start = self._at
        target = self._target()
        if target is not None:
            operator = self._take("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|=")
            if operator is not None:
                name, index = target
                before = 0 if operator == "=" else self._looked_up(name, index)
                value = self._assignment()
                if operator != "=":
                    value = self._applied(operator[:-1], before, value)
                self._set(name, index, value)
                return value
        self._at = start
        return self._ternary()

    def _target(self) -> tuple[str, str | None] | None:
        """A name, and its index."""
        if self._kind != "name":
            return None
        name = self._text
        self._at += 1
        return name, self._index()

    def _index(self) -> str | None:
        if not self._take("["):
            return None
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NotKnownError(f"an expression is nested more than {MAX_DEPTH} levels deep")
        value = self._comma()
        self._depth -= 1
        if not self._take("]"):
            self._refuse()
        return str(value)

    def _ternary(self) -> int:
        condition = self._either()
        if not self._take("?"):
            return condition
        chosen = self._skipped(self._comma, not condition)
        if not self._take(":"):
            self._refuse()
        other = self._skipped(self._assignment_or_ternary, bool(condition))
        return chosen if condition else other

    def _assignment_or_ternary(self) -> int:
        return self._nested(self._ternary)

    def _nested(self, read: Callable[[], int]) -> int:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NotKnownError(f"an expression is nested more than {MAX_DEPTH} levels deep")
        value = read()
        self._depth -= 1
        return value

    def _skipped(self, read: Callable[[], int], skips: bool) -> int:
        self._skips += skips
        value = self._nested(read)
        self._skips -= skips
        return value

    def _either(self) -> int:
        value = self._both()
        while self._take("||"):
            right = self._skipped(self._both, bool(value))
            value = int(bool(value) or bool(right))
        return value

    def _both(self) -> int:
        value = self._level(0)
        while self._take("&&"):
            right = self._skipped(lambda: self._level(0), not value)
            value = int(bool(value) and bool(right))
        return value

    def _level(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._powers()
        value = self._level(level + 1)
        while (operator := self._take(*_LEVELS[level])) is not None:
            value = self._applied(operator, value, self._level(level + 1))
        return value

    def _powers(self) -> int:
        value = self._unary()
        if self._take("**"):
            return self._applied("**", value, self._nested(self._powers))
        return value

    def _applied(self, operator: str, one: int, two: int) -> int:
        if self._skips:
            return 0
        return wrapped(int(_BINARY[operator](one, two)))

    def _unary(self) -> int:
        operator = self._take("!", "~", "-", "+")
        if operator is not None:
            value = self._nested(self._unary)
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
            value = wrapped(self._looked_up(*target) + (1 if step == "++" else -1))
            self._set(*target, value)
            return value
        return self._primary()

    def _primary(self) -> int:
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
            self._set(*target, wrapped(value + (1 if step == "++" else -1)))
        return value

    def _looked_up(self, name: str, index: str | None) -> int:
        if self._skips:
            return 0
        try:
            text = self._variables.number_text(name, index)
            if _PLAIN.fullmatch(text) and not text.startswith("0"):
                return int(text)
            return _Evaluation(text, self._variables, self._depth + 1).value()
        except NotKnownError as why:
            self._not_known = why
            self._skips += 1
            return 0

    def _set(self, name: str, index: str | None, value: int) -> None:
        if not self._skips:
            self._variables.set_number(name, index, value)


def _number(text: str) -> int:
    """A constant: decimal, octal behind 0, hexadecimal behind 0x, or base#digits."""
    found = _NUMBER.fullmatch(text)
    if found is None or len(text) > 80:
        raise RefusedError(f"{text} is not a number")
    if found["hex"] is not None:
        return wrapped(int(found["hex"] or "0", 16))
    if found["base"] is None:
        base, digits = (8 if text.startswith("0") else 10), text
    else:
        base, digits = int(found["base"]), found["digits"]
        if not 2 <= base <= 64:
            raise RefusedError(f"{base} is no base")
    value = 0
    for sign in digits:
        digit = _digit(sign, base)
        if digit >= base:
            raise RefusedError(f"{text} has a digit too great for its base")
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

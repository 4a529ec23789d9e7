"""Arithmetic of the shell on whole numbers of 64 bits."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from trainfit.launch.commands.shell.source import text_of
from trainfit.launch.commands.shell.text import NotKnownError, Text

if TYPE_CHECKING:
    from tree_sitter import Node

    from trainfit.launch.commands.shell.words import Expander

_NUMBER = re.compile(r"(?P<sign>[-+]?)(?:(?P<base>\d+)#)?(?P<digits>\w+)")
_NAME = re.compile(r"[A-Za-z_]\w*")


def _divided(one: int, two: int) -> int:
    """Towards zero, as C divides."""
    if two == 0:
        raise NotKnownError("it divides by zero")
    quotient = abs(one) // abs(two)
    return quotient if (one < 0) == (two < 0) else -quotient


def _power(one: int, two: int) -> int:
    if two < 0:
        raise NotKnownError("it raises to a negative power")
    return pow(one, two, 1 << 64)


_BINARY: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
    "%": lambda one, two: one - two * _divided(one, two),
    "**": _power,
    "<<": lambda one, two: one << (two % 64),
    ">>": lambda one, two: one >> (two % 64),
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&&": lambda one, two: bool(one) and bool(two),
    "||": lambda one, two: bool(one) or bool(two),
}

_UNARY: Mapping[str, Callable[[int], int]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "!": operator.not_,
}


def number(text: str) -> int:
    """A number as the shell reads it. Raises NotKnownError where it is none."""
    found = _NUMBER.fullmatch(text.strip())
    if text.strip() == "":
        return 0
    if found is None:
        raise NotKnownError(f"{text!r} is not a number")
    digits, base = found["digits"], int(found["base"] or 0)
    if not base and digits.startswith("0") and digits.isdecimal():
        base = 8
    try:
        value = int(digits, base or (16 if digits[:2].lower() == "0x" else 10))
    except ValueError:
        raise NotKnownError(f"{text!r} is not a number") from None
    return _wrapped(-value if found["sign"] == "-" else value)


def evaluate(node: Node, shell: Expander) -> int:
    """The value of an expression. Raises NotKnownError."""
    match node.type:
        case "binary_expression":
            return _binary(node, shell)
        case "unary_expression" | "postfix_expression":
            return _unary(node, shell)
        case "ternary_expression":
            condition, chosen, other = (child for child in node.children if child.is_named)
            return evaluate(chosen if evaluate(condition, shell) else other, shell)
        case "variable_assignment":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is None or value is None:
                raise NotKnownError(f"{text_of(node)} is not read")
            return _assigned(name, evaluate(value, shell), shell)
        case "variable_name" | "word" if _NAME.fullmatch(text_of(node)):
            return number(shell.variable(text_of(node), node).known())
        case "parenthesized_expression" | "arithmetic_expansion" | "compound_statement":
            inner = [child for child in node.children if child.is_named]
            values = [evaluate(child, shell) for child in inner]
            return values[-1] if values else 0
        case _:
            return number(shell.value(node).known())


def _binary(node: Node, shell: Expander) -> int:
    left, sign, right = (node.child_by_field_name(name) for name in ("left", "operator", "right"))
    if left is None or sign is None or right is None:
        raise NotKnownError(f"{text_of(node)} is not read")
    symbol = text_of(sign)
    if symbol == "=":
        return _assigned(left, evaluate(right, shell), shell)
    if symbol not in _BINARY and symbol.endswith("="):
        value = _applied(symbol[:-1], evaluate(left, shell), evaluate(right, shell))
        return _assigned(left, value, shell)
    one = evaluate(left, shell)
    if symbol in ("&&", "||") and bool(one) == (symbol == "||"):
        return int(bool(one))
    return _applied(symbol, one, evaluate(right, shell))


def _applied(symbol: str, one: int, two: int) -> int:
    if symbol not in _BINARY:
        raise NotKnownError(f"the operator {symbol} is not read")
    return _wrapped(int(_BINARY[symbol](one, two)))


def _unary(node: Node, shell: Expander) -> int:
    operand = next((child for child in node.children if child.is_named), None)
    symbol = next((text_of(child) for child in node.children if not child.is_named), "")
    if operand is None:
        raise NotKnownError(f"{text_of(node)} is not read")
    value = evaluate(operand, shell)
    if symbol in ("++", "--"):
        changed = _wrapped(value + (1 if symbol == "++" else -1))
        _assigned(operand, changed, shell)
        return value if node.type == "postfix_expression" else changed
    if symbol not in _UNARY:
        raise NotKnownError(f"the operator {symbol} is not read")
    return _wrapped(int(_UNARY[symbol](value)))


def _assigned(target: Node, value: int, shell: Expander) -> int:
    at = shell.source.piece(target)
    shell.state.set(text_of(target), Text.of(str(value), at.file, at.line))
    return value


def _wrapped(value: int) -> int:
    """Into 64 bits with a sign."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)

"""Conditions as [ ], [[ ]] and test decide them, as far as the script itself decides them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from trainfit.launch.commands.shell import arithmetic
from trainfit.launch.commands.shell.source import text_of
from trainfit.launch.commands.shell.text import NotKnownError, Text

if TYPE_CHECKING:
    from tree_sitter import Node

    from trainfit.launch.commands.shell.words import Expander

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


def holds(test: Node, shell: Expander) -> bool:
    """Whether a test command succeeds. Raises NotKnownError."""
    opening, *inner, _ = test.children
    if len(inner) != 1:
        return words_hold(shell.words(inner))
    return _holds(inner[0], shell, patterns=text_of(opening) == "[[")


def words_hold(words: Sequence[Text]) -> bool:
    """Whether `test` with these words succeeds. Raises NotKnownError."""
    match [text.known() for text in words]:
        case []:
            return False
        case [value]:
            return value != ""
        case ["!", *_]:
            return not words_hold(words[1:])
        case ["-n" | "-z" as sign, value]:
            return (value == "") == (sign == "-z")
        case [one, sign, two] if sign in _TEXTS:
            return _TEXTS[sign](one, two)
        case [one, sign, two] if sign in _NUMBERS:
            return _NUMBERS[sign](arithmetic.number(one), arithmetic.number(two))
        case known:
            raise NotKnownError(f"the condition {' '.join(known)} is not decided by the script")


def _holds(node: Node, shell: Expander, *, patterns: bool) -> bool:
    match node.type:
        case "parenthesized_expression":
            return _holds(node.children[1], shell, patterns=patterns)
        case "unary_expression":
            return _unary(node, shell, patterns=patterns)
        case "binary_expression":
            return _binary(node, shell, patterns=patterns)
        case _:
            with shell.unset_is_empty():
                return shell.value(node).known() != ""


def _unary(node: Node, shell: Expander, *, patterns: bool) -> bool:
    sign, operand = node.children[0], node.children[-1]
    match text_of(sign):
        case "!":
            return not _holds(operand, shell, patterns=patterns)
        case "-z" | "-n" as asked:
            with shell.unset_is_empty():
                return (str(_told(shell.value(operand))) == "") == (asked == "-z")
        case "-v":
            return shell.state.get(shell.value(operand).known()) is not None
        case _:
            raise NotKnownError(f"{_written(node)} is not decided by the script")


def _told(text: Text) -> Text:
    """A text of which it is known whether it is empty."""
    if not any(piece.text and piece.unknown is None for piece in text.pieces):
        text.known()
    return text


def _binary(node: Node, shell: Expander, *, patterns: bool) -> bool:
    left, sign = (node.child_by_field_name(name) for name in ("left", "operator"))
    rights = node.children_by_field_name("right")
    if left is None or sign is None or not rights:
        raise NotKnownError(f"{_written(node)} is not read")
    right = rights[0]
    match text_of(sign):
        case "&&" | "-a":
            return not _either(left, right, shell, patterns=patterns, sought=False)
        case "||" | "-o":
            return _either(left, right, shell, patterns=patterns, sought=True)
        case "=" | "==" | "!=" as asked if patterns:
            pattern = "".join(shell.pattern(each) for each in rights)
            return fnmatchcase(shell.value(left).known(), pattern) == (asked != "!=")
        case asked if asked in _TEXTS:
            return _TEXTS[asked](shell.value(left).known(), shell.value(right).known())
        case asked if asked in _NUMBERS:
            return _NUMBERS[asked](_number(left, shell), _number(right, shell))
        case _:
            raise NotKnownError(f"{_written(node)} is not decided by the script")


def _either(left: Node, right: Node, shell: Expander, *, patterns: bool, sought: bool) -> bool:
    """Whether one of two comes out as is sought, which may be known though the other is not."""
    try:
        first = _holds(left, shell, patterns=patterns) == sought
    except NotKnownError:
        if _holds(right, shell, patterns=patterns) == sought:
            return True
        raise
    return first or _holds(right, shell, patterns=patterns) == sought


def _number(node: Node, shell: Expander) -> int:
    return arithmetic.number(shell.value(node).known())


def _written(node: Node) -> str:
    words = " ".join(text_of(node).split())
    return words if len(words) <= 60 else f"{words[:57]}..."

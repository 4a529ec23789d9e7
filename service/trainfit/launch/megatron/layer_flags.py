"""Which layers are of a kind: a number, or lists in an expression, as `--moe-layer-freq` has it."""

from __future__ import annotations

import ast

MAX_LAYERS = 2048
_MAX_LENGTH = 4096
_WRONG = "must be a number, or lists that are added and multiplied: ([0]*3+[1]*58)"


def layer_flags(words: str | int | list[int]) -> int | list[int]:
    """A number or a list as it is, or the list of ([0]*3+[1]*58). Raises ValueError."""
    if not isinstance(words, str):
        return words
    if words.strip().isdecimal():
        return int(words)
    if len(words) > _MAX_LENGTH:
        raise ValueError(_WRONG)
    try:
        return _list(ast.parse(words.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(_WRONG) from None


def _list(node: ast.expr) -> list[int]:
    """Raises ValueError where it is none, or longer than a model."""
    match node:
        case ast.List(elts=elements):
            flags = [_number(element) for element in elements]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            flags = _list(left) + _list(right)
        case ast.BinOp(left=ast.Constant() as left, op=ast.Mult(), right=right):
            flags = _repeated(_list(right), _number(left))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            flags = _repeated(_list(left), _number(right))
        case _:
            raise ValueError(_WRONG)
    if len(flags) > MAX_LAYERS:
        raise ValueError(f"has more than {MAX_LAYERS} layers")
    return flags


def _repeated(flags: list[int], times: int) -> list[int]:
    return flags * min(times, MAX_LAYERS + 1)


def _number(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    raise ValueError(_WRONG)

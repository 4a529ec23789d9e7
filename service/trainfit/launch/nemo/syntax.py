"""Python as syntax: what a script says without being run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

UNKNOWN = object()
"""A value that is worked out."""
Body = ast.Module | ast.FunctionDef


def bodies(tree: ast.Module) -> Iterator[Body]:
    yield tree
    yield from (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))


def name_of(body: Body) -> str | None:
    return getattr(body, "name", None)


def calls_of(body: Body, within: Iterable[ast.AST]) -> list[ast.Call]:
    """Calls of a function by its name."""
    name = name_of(body)
    calls = (each for each in within if isinstance(each, ast.Call))
    return [each for each in calls if isinstance(each.func, ast.Name) and each.func.id == name]


def own(statements: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """What stands in these statements, but not in functions and classes among them."""
    for each in statements:
        if not isinstance(each, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield from ast.walk(each)


def imported(tree: ast.Module) -> dict[str, str]:
    """Functions that are imported from a module of recipes, and the module's last name."""
    froms = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
    return {
        name.name: (each.module or "").rpartition(".")[2] for each in froms for name in each.names
    }


def names_of(tree: ast.Module, module: str) -> list[str]:
    """The names under which a module is imported."""
    imports = [each for each in ast.walk(tree) if isinstance(each, ast.Import)]
    return [
        name.asname or name.name for each in imports for name in each.names if name.name == module
    ]


def last(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def constants_of(statements: Iterable[ast.stmt]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in statements:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            found[each.targets[0].id] = value_of(each.value, found)
    return found


def value_of(node: ast.AST, constants: Mapping[str, Any]) -> Any:
    """A value that stands there; UNKNOWN where it is worked out."""
    if isinstance(node, ast.Name):
        return constants.get(node.id, UNKNOWN)
    if isinstance(node, ast.Attribute):
        return node.attr if last(node.value) in ("torch", "AttnBackend") else UNKNOWN
    if isinstance(node, ast.BoolOp):
        return _either(node, [value_of(each, constants) for each in node.values])
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN


def _either(node: ast.BoolOp, values: list[Any]) -> Any:
    """What several conditions make: one decides where it does without the others."""
    decides = isinstance(node.op, ast.Or)
    if any(each is not UNKNOWN and bool(each) is decides for each in values):
        return decides
    return UNKNOWN if UNKNOWN in values else not decides


def defaults_of(arguments: ast.arguments) -> dict[str, Any]:
    """What the arguments of a function are where nobody gives them."""
    named = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    found: dict[str, Any] = {each.arg: UNKNOWN for each in (*arguments.args, *arguments.kwonlyargs)}
    found |= {
        each.arg: value_of(default, {})
        for each, default in zip(named, arguments.defaults, strict=True)
    }
    return found


def root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""

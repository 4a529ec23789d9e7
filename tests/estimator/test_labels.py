"""No name of an operation or of a tensor decides what anything takes: names are for people."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import trainfit.estimator

ROOT = Path(trainfit.estimator.__file__).parent
CLOSED = ("segment", "placed")
"""What has a name out of a closed set, which the type checker holds."""


def decisions(source: str) -> Iterator[str]:
    """Comparisons of names, questions about how they begin or end, and searches among them."""
    for node in ast.walk(ast.parse(source)):
        asked: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.Call):
            function = node.func
            asked = [function.value] if _asks_for_an_end(function) else list(_searched(function))
        for each in asked:
            if isinstance(each, ast.Attribute) and each.attr == "name":
                owner = ast.unparse(each.value).rpartition(".")[2]
                if owner not in CLOSED:
                    yield ast.unparse(node)


def _asks_for_an_end(function: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(function, ast.Attribute) and function.attr in ("startswith", "endswith")


def _searched(function: ast.expr) -> Iterator[ast.expr]:
    """The element of a list that is made to look something up in it."""
    if isinstance(function, ast.Attribute) and function.attr in ("index", "count"):
        listed = function.value
        if isinstance(listed, ast.ListComp | ast.GeneratorExp):
            yield listed.elt


def test_no_decision_by_a_label() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        assert list(decisions(path.read_text())) == [], path


def test_decisions_by_labels_are_found() -> None:
    found = decisions("a.name == 'x'\n'x' in (b.name, 1)\nrow.name.endswith('_proj')\nc.name in N")
    assert list(found) == ["a.name == 'x'", "row.name.endswith('_proj')", "c.name in N"]
    assert list(decisions("[each.name for each in row].index('router')"))
    assert not list(decisions("placed.segment.name == 'head'\nrow.role is Role.NORMALISED"))

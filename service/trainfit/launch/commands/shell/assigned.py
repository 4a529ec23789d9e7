"""Which variables a stretch of a script sets, or may set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainfit.launch.commands.shell.source import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_SETTING_COMMANDS = ("read", "mapfile", "readarray", "getopts", "printf", "let", "export", "local")


def assigned_names(node: Node) -> dict[str, None]:
    """The names that are assigned anywhere below a node, as they are written."""
    return dict.fromkeys(_names(node))


def own_names(node: Node) -> frozenset[str]:
    """The names that a script gives values of its own: not X in X=$X or X=${X:-1}, which say that
    it may come from outside, nor one that is set for a single command.
    """
    given: dict[str, bool] = {}
    nodes = [node]
    while nodes:
        each = nodes.pop()
        nodes += each.children
        if each.type == "variable_assignment" and not _is_for_one_command(each):
            name = text_of(each.children[0]).partition("[")[0]
            given[name] = given.get(name, True) and name not in _mentioned(each)
    return frozenset(name for name, own in given.items() if own)


def _is_for_one_command(assignment: Node) -> bool:
    return assignment.parent is not None and assignment.parent.type == "command"


def _mentioned(assignment: Node) -> Iterator[str]:
    """The variables that the value of an assignment is made of."""
    nodes = assignment.children[1:]
    while nodes:
        each = nodes.pop()
        nodes += each.children
        if each.type == "variable_name":
            yield text_of(each)


def _names(root: Node) -> Iterator[str]:
    nodes = [root]
    while nodes:
        node = nodes.pop()
        nodes += node.children
        match node.type:
            case "variable_assignment":
                yield text_of(node.children[0]).partition("[")[0]
            case "for_statement" | "declaration_command" | "unset_command":
                yield from (text_of(each) for each in node.children if each.type == "variable_name")
            case "command" if text_of(node.children[0]) in _SETTING_COMMANDS:
                yield from (text_of(each).partition("=")[0] for each in node.children[1:])
            case _:
                pass

"""Which variables a stretch of a script may set."""

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

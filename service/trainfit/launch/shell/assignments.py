"""What variables and their items are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainfit.launch.shell import arithmetic
from trainfit.launch.shell.expansion import UNNAMED
from trainfit.launch.shell.parameters import subscript
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.state import (
    DYNAMIC,
    Value,
    Variable,
    unknown,
)
from trainfit.launch.shell.syntax import (
    Assignment,
    Items,
    Word,
)
from trainfit.launch.shell.text import Array, NotKnownError, Text

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript


def assigned(
    script: ShellScript, node: Assignment, before: dict[str, Variable | None] | None = None
) -> None:
    """Follow an assignment, and note in `before` what it takes the place of."""
    variable = script.state.variables.get(node.name, Variable(None))
    start = 0
    if node.adds and isinstance(variable.value, Array) and not variable.keyed:
        start = max(map(int, variable.value.items), default=-1) + 1
    elif node.adds and isinstance(variable.value, Text):
        start = 1
    value = value_of(script, node.value, keyed=variable.keyed, start=start)
    index = None
    if node.index is not None:
        try:
            index = subscript(node.name, node.index, script.expander())
        except NotKnownError as why:
            script.forget([node.name], node.place, str(why))
            return
    if before is not None:
        before.setdefault(node.name, script.state.variables.get(node.name))
    script.assign(node.name, value, node.place, index, adds=node.adds)


def value_of(script: ShellScript, node: Word | Items, *, keyed: bool, start: int = 0) -> Value:
    """What is assigned; items without an index stand from `start` on."""
    expander = script.expander()
    if isinstance(node, Word):
        return expander.value(node)
    items: dict[str, Text] = {}
    following = start
    for item in node.items:
        if isinstance(item, Word):
            if keyed:
                script.not_followed(item.place, "an associative array without keys")
            for text in expander.words([item]):
                items[str(following)] = text
                following += 1
            continue
        value = value_of(script, item.value, keyed=False)
        assert isinstance(value, Text)
        assert item.index is not None
        try:
            text = expander.value(item.index)
            key = text.known() if keyed else str(expander.calculated(text, item.place))
        except NotKnownError as why:
            return Text(unknown("array", item.place, str(why)).pieces, spreads=True)
        items[key] = items[key] + value if item.adds and key in items else value
        if not keyed:
            following = int(key) + 1
    return Array({}, keyed).with_items(items)


def assign(
    script: ShellScript,
    name: str,
    value: Value,
    place: Piece,
    index: str | None = None,
    *,
    adds: bool = False,
) -> None:
    """Give a variable, or an item of it, a value."""
    name = meant(script, name, place)
    variable = script.state.variables.get(name, Variable(None))
    if variable.readonly:
        script.refused(place, f"{name} cannot be changed")
    if name in DYNAMIC:
        return
    if script.loosely or variable.case == "?":
        why = "it runs in a way that is not known" if script.doubt is None else script.doubt
        script.state.put(name, Text(unknown(name, place, why).pieces, spreads=True))
        return
    if isinstance(value, Text):
        value = _one(script, name, variable, value, place, index, adds=adds)
    elif adds:
        value = _more(script, variable, value)
    script.budget.spend(len(value.items) if isinstance(value, Array) else len(value.pieces))
    script.state.put(name, value)


def forget(script: ShellScript, names: Sequence[str], place: Piece, why: str) -> None:
    """Take these variables to be set to something that is not known."""
    for each in names:
        name = meant(script, each, place)
        if name not in DYNAMIC and not script.state.variables.get(name, Variable(None)).readonly:
            script.state.put(name, Text(unknown(name, place, why).pieces, spreads=True))


def meant(script: ShellScript, name: str, place: Piece) -> str:
    """The name of the variable that another one stands for."""
    try:
        return script.state.meant(name)
    except NotKnownError as why:
        script.not_followed(place, str(why))


def _one(
    script: ShellScript,
    name: str,
    variable: Variable,
    text: Text,
    place: Piece,
    index: str | None,
    *,
    adds: bool,
) -> Value:
    """The value with one text assigned to it or to an item of it."""
    held = variable.value
    if adds and name not in script.state.variables and not script.state.is_empty(name):
        held = unknown(name, place, script.state.unset(name))
    if isinstance(held, Text) and held.spreads and (index is not None or adds):
        return Text(unknown(name, place, str(held.unknown)).pieces, spreads=True)
    key = index or "0"
    before: Text | None
    try:
        before = held.item(key) if isinstance(held, Array) else held
    except NotKnownError as why:
        return Text(unknown(name, place, str(why)).pieces, spreads=True)
    if index not in (None, "0") and not isinstance(held, Array):
        before = None
    text = _converted(script, variable, text, before if adds else None, place)
    if isinstance(held, Array):
        return held.with_items({key: text})
    if index is None and not variable.keyed:
        return text
    items = {"0": held} if isinstance(held, Text) else {}
    return Array({}, variable.keyed).with_items({**items, key: text})


def _converted(
    script: ShellScript, variable: Variable, text: Text, before: Text | None, place: Piece
) -> Text:
    """A text as an integer or in small letters, where a variable is declared so."""
    if variable.integer:
        try:
            expander = script.expander()
            number = expander.calculated(text, place)
            if before is not None:
                number += expander.calculated(before, place)
            return Text.at(place, str(arithmetic.wrapped(number)))
        except NotKnownError as why:
            return Text.at(place, UNNAMED, str(why))
    if before is not None:
        script.budget.spend(len(str(before)) + len(before.pieces))
        text = before + text
    if variable.case and variable.case in "ul":
        if text.unknown is not None:
            return Text.at(place, UNNAMED, text.unknown)
        known = str(text)
        text = Text.at(place, known.upper() if variable.case == "u" else known.lower())
    return text


def _more(script: ShellScript, variable: Variable, added: Array) -> Value:
    """An array with more items behind it."""
    held = variable.value
    if isinstance(held, Text) and held.spreads:
        return held
    if held is None:
        return added
    before = held if isinstance(held, Array) else Array.of([held])
    script.budget.spend(len(before.items))
    return before.with_items(added.items)

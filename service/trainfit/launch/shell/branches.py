"""&& and ||, if and case: what of a script is followed, as far as its conditions are known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from trainfit.launch.shell import unclear
from trainfit.launch.shell.flow import Status
from trainfit.launch.shell.patterns import matches
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.syntax import (
    Case,
    Chain,
    CommandList,
    If,
    Node,
)
from trainfit.launch.shell.text import NotKnownError

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript


def follow_chain(script: ShellScript, node: Chain) -> Status:
    """a && b || c"""
    with script.guard():
        status = script.run(node.first)
    for index, (sign, command) in enumerate(node.others):
        last = index == len(node.others) - 1
        by = f"{sign} {index}"
        status = _then(script, status, sign, command, node.place, by, guarded=not last)
    return status


def _then(
    script: ShellScript,
    status: Status,
    sign: str,
    command: Node,
    place: Piece,
    by: str,
    *,
    guarded: bool,
) -> Status:
    def run() -> Status:
        if not guarded:
            return script.run(command)
        with script.guard():
            return script.run(command)

    if isinstance(status, int):
        return run() if (status == 0) == (sign == "&&") else status
    skipped: Status = 0 if sign == "||" else status
    return unclear.either(script, [run, lambda: skipped], place, by, status)


def follow_if(script: ShellScript, node: If) -> Status:
    return _branches(script, list(node.branches), node)


def _branches(
    script: ShellScript, branches: Sequence[tuple[CommandList, CommandList]], node: If
) -> Status:
    """The first branch whose condition holds."""
    for index, (condition, body) in enumerate(branches):
        with script.guard():
            status = script.run(condition)
        if isinstance(status, str):
            ways = [
                partial(script.run, body),
                partial(_branches, script, branches[index + 1 :], node),
            ]
            by = f"if {len(node.branches) - len(branches) + index}"
            return unclear.either(script, ways, node.place, by, status)
        if status == 0:
            return script.run(body)
    return 0 if node.otherwise is None else script.run(node.otherwise)


def follow_case(script: ShellScript, node: Case) -> Status:
    if any(item.end != ";;" for item in node.items):
        return _case_running_on(script, node)
    expander = script.expander()
    try:
        if script.loosely:
            raise NotKnownError("it runs in a way that is not known")
        word = expander.value(node.word).known()
        return _cases(script, node, 0, word)
    except NotKnownError as why:
        ways = [partial(_items, script, node, start) for start in range(len(node.items))]
        return unclear.either(script, [*ways, lambda: 0], node.place, "case", str(why))


def _case_running_on(script: ShellScript, node: Case) -> Status:
    """A case of which one item may run on into the next."""

    def once() -> Status:
        ways = [partial(script.run, item.body) for item in node.items]
        why = "it runs in an unknown way"
        return unclear.either(script, [*ways, lambda: 0], node.place, "case", why)

    def follow() -> Status:
        return _cases(script, node, 0, script.expander().value(node.word).known())

    return unclear.until_clear(script, node.place, follow, once)


def _cases(script: ShellScript, node: Case, start: int, word: str) -> Status:
    """Every item from this one on that is chosen. Raises NotKnownError before any is."""
    chosen = next(
        (at for at in range(start, len(node.items)) if _matches(script, node, at, word)), None
    )
    if chosen is None:
        return 0
    status: Status = script.run(node.items[chosen].body)
    while node.items[chosen].end == ";&" and chosen + 1 < len(node.items):
        chosen += 1
        status = script.run(node.items[chosen].body)
    if node.items[chosen].end != ";;&":
        return status
    found = next(
        (at for at in range(chosen + 1, len(node.items)) if _matches(script, node, at, word)),
        None,
    )
    return status if found is None else _cases(script, node, found, word)


def _items(script: ShellScript, node: Case, start: int) -> Status:
    """An item that may be chosen."""
    return script.run(node.items[start].body)


def _matches(script: ShellScript, node: Case, at: int, word: str) -> bool:
    expander = script.expander()
    for pattern in node.items[at].patterns:
        script.budget.spend(len(word))
        if matches(word, expander.compiled(pattern)):
            return True
    return False

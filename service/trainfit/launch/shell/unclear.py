"""What may happen or not: every way is followed, and what they have in common is known after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from trainfit.launch.shell.expansion import UNNAMED
from trainfit.launch.shell.flow import Jump, LeftError, Status, UnclearError, root
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.refusals import PossibleRefusal
from trainfit.launch.shell.state import (
    State,
    merged,
)
from trainfit.launch.shell.text import NotKnownError, Text

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript


class Around(NamedTuple):
    """Loops and functions around a statement, and shells within the shell."""

    loops: int = 0
    returns: int = 0
    subshells: int = 0


def until_clear(
    script: ShellScript,
    place: Piece,
    follow: Callable[[], Status],
    once: Callable[[], Status] | None = None,
    within: Around | None = None,
) -> Status:
    """Follow something; if it is not clear how it goes on, see what it may set. What stands in
    it is `within` it.
    """
    if script.loosely:
        return (once or follow)()
    before, commands, ends = script.state.copy(), len(script.commands), len(script.ends_early)
    refusals = len(script.refusals)
    printed = None if script.printed is None else len(script.printed)
    script.budget.spend(before.size)
    loops, returns, guarded = script.loops, script.returns, script.guarded
    subshells, functions, captures = script.subshells, script.functions, script.captures
    active, depth, calls = list(script.active), script.depth, script.calls
    try:
        return follow()
    except (UnclearError, NotKnownError) as why:
        script.state = before
        del script.commands[commands:]
        del script.ends_early[ends:]
        del script.refusals[refusals:]
        if script.printed is not None and printed is not None:
            del script.printed[printed:]
        script.loops, script.returns, script.guarded = loops, returns, guarded
        script.subshells, script.functions, script.captures = subshells, functions, captures
        script.active, script.depth, script.calls = active, depth, calls
        return _loose(script, place, once or follow, str(why), within or Around())


def _loose(
    script: ShellScript, place: Piece, once: Callable[[], Status], why: str, within: Around
) -> Status:
    """See every statement once; what they set is not known afterwards.

    They are seen twice, so that what is set at the end is not known at the beginning either.
    """
    why = root(f"{script.where(place)} runs in a way that is not known", why)
    outer = script.loosely, script.doubt, script.seen
    script.loosely, script.doubt = True, script.doubt or why
    script.seen = Around(
        script.loops, script.returns - within.returns, script.subshells - within.subshells
    )
    commands = len(script.commands)
    script.state.stdin = None
    try:
        for _ in range(2):
            del script.commands[commands:]
            before, script.state = script.state, script.state.copy()
            script.budget.spend(before.size)
            try:
                once()
            except NotKnownError:
                script.not_followed(place, "what is neither known nor clear")
            script.state = merged([before, script.state], place, why)
    finally:
        script.loosely, script.doubt, script.seen = outer
    if script.printed is not None:
        script.printed.append(Text.at(place, UNNAMED, why))
    return why


def either(
    script: ShellScript, ways: Sequence[Callable[[], Status]], place: Piece, by: str, why: str
) -> Status:
    """Follow each of several ways, of which the script takes one that is not known, or the one that
    is decided. Which one is told `by` a part of the statement, and `why` says why nobody knows it.
    """
    why = root(f"{script.where(place)} depends on what is not known", why)
    decided = script.choices.meet(place, by, len(ways), why)
    if decided is not None:
        return ways[decided]()
    before, outer, status_before = script.state, script.doubt, script.status
    states: list[State] = []
    refused: list[PossibleRefusal] = []
    statuses: list[Status] = []
    unclear = False
    printed = None if script.printed is None else list(script.printed)
    outputs: list[str] = []
    script.doubt = outer or why
    for way in ways:
        script.budget.spend(before.size)
        script.state, script.status = before.copy(), status_before
        if printed is not None:
            script.printed = list(printed)
        try:
            statuses.append(way())
        except LeftError as left:
            if left.way is Jump.DISCARD:
                refused.append(PossibleRefusal(place, why, script.state))
            else:
                unclear = unclear or left.way is not Jump.EXIT or script.subshells > 0
                script.assumed.append(place)
        else:
            states.append(script.state)
        outputs.append("".join(map(str, script.printed or ())))
    script.doubt = outer
    script.state = before
    if unclear:
        raise UnclearError(why)
    if not states and not refused:
        raise LeftError(Jump.EXIT, why)
    if not states:
        script.state = merged([each.state for each in refused], place, why)
        raise LeftError(Jump.DISCARD, why)
    script.refusals += refused
    if printed is not None:
        if len(set(outputs)) > 1 or len(script.printed or ()) > len(printed):
            script.printed = [*printed, Text.at(place, UNNAMED, why)]
        else:
            script.printed = printed
    script.state = merged(states, place, why)
    return statuses[0] if all(each == statuses[0] for each in statuses) else why

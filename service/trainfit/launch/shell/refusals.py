"""Expansions that bash refuses, or may refuse: it goes on behind the command then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from trainfit.launch.shell.flow import Jump, LeftError, UnclearError, root
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.state import (
    State,
    merged,
)
from trainfit.launch.shell.syntax import (
    CommandList,
    Node,
)
from trainfit.launch.shell.text import NotKnownError

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript


class PossibleRefusal(NamedTuple):
    """Where an expansion may be refused, why, and the shell as it is then."""

    place: Piece
    why: str
    state: State


def to_its_end(script: ShellScript, command: Node) -> None:
    """Follow a command of a text, behind which bash goes on where it refuses an expansion."""
    since = len(script.refusals)
    ended: list[State] = []
    try:
        script.run(command)
        ended.append(script.state)
    except LeftError as left:
        if left.way is Jump.DISCARD:
            script.status = left.status
            _may_end_with(script, command)
            ended.append(script.state)
        elif len(script.refusals) == since:
            raise
        elif left.way is not Jump.EXIT:
            raise UnclearError(script.refusals[since].why) from None
        else:
            script.supposed(script.refusals[since].place)
    refusals = script.refusals[since:]
    del script.refusals[since:]
    if refusals:
        place, why = refusals[0].place, refusals[0].why
        _may_end_with(script, command)
        states = [*ended, *(each.state for each in refusals)]
        script.budget.spend(sum(each.size for each in states))
        script.state = merged(states, place, why)
        script.status = why


def _may_end_with(script: ShellScript, command: Node) -> None:
    """Whether set -e ends a script that is refused something depends on what is around it."""
    if script.state.on("errexit"):
        first = command.commands[0] if isinstance(command, CommandList) else command
        script.supposed(Piece("", "", None) if isinstance(first, CommandList) else first.place)


def refused(script: ShellScript, place: Piece, why: str) -> NoReturn:
    """Bash goes on with the next line behind an expansion that it refuses."""
    if script.loosely:
        script.may_be_refused(place, why)
        raise NotKnownError(why)
    script.ends_early.append((place, f"bash stops here: {why}"))
    raise LeftError(Jump.DISCARD, 1)


def may_be_refused(script: ShellScript, place: Piece, why: str) -> None:
    """Bash may refuse an expansion here, and go on behind the command that it stands in."""
    why = root(f"{script.where(place)} may be refused, which is not known", why)
    script.budget.spend(script.state.size)
    script.refusals.append(PossibleRefusal(place, why, script.state.copy()))


def reached(script: ShellScript, since: int) -> Sequence[State]:
    """The shell as it is, and as it is where it was refused something since a moment."""
    return [script.state, *(each.state for each in script.refusals[since:])]

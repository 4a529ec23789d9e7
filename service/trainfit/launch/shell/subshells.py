"""Shells within the shell: ( ), pipes, & and $( )."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainfit.launch.shell import files, unclear
from trainfit.launch.shell.expansion import UNNAMED
from trainfit.launch.shell.fields import ONE_WORD
from trainfit.launch.shell.flow import Status
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.state import (
    merged,
)
from trainfit.launch.shell.syntax import (
    Background,
    CommandList,
    CommandPipeline,
    Node,
    Redirect,
    Redirected,
    Simple,
    Subshell,
    Substitution,
)
from trainfit.launch.shell.text import Text
from trainfit.launch.shell.unclear import Around

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript

_NOT_RUN = " is not run; write what it prints in its place"
_COUNTS_GPUS = re.compile(r"\bnvidia-smi\b|\bdevice_count\(\)")
_OF_A_NODE = (
    ", or, of a node with as many GPUs as there are, give /parallelism/num_gpus in overrides"
)
"""What settles a count of GPUs as well."""


def follow_pipeline(script: ShellScript, node: CommandPipeline) -> Status:
    """Each part runs in a shell of its own, and reads what the one before prints."""
    *others, last = node.commands
    statuses: list[Status] = []
    outer = script.state.stdin
    with script.guard() if node.negated else _nothing():
        for command in others:
            with script.guard():
                text, status = captured(script, command, node.place)
            statuses.append(status)
            script.state.stdin = text
        if others and not script.state.on("lastpipe"):
            status = _apart(script, lambda: script.run(last), node.place)
        else:
            status = script.run(last)
        statuses.append(status)
    if others:
        script.state.stdin = outer
    status = _of_pipeline(statuses) if script.state.on("pipefail") else statuses[-1]
    if node.negated:
        return status if isinstance(status, str) else int(status == 0)
    return script.checked(status, node.place)


def follow_background(script: ShellScript, node: Background) -> Status:
    def run() -> Status:
        script.state.stdin = Text.at(node.place, "")
        return script.run(node.command)

    outer = script.state.stdin
    _apart(script, run, node.place)
    script.state.stdin = outer
    return 0


def follow_subshell(script: ShellScript, node: Subshell) -> Status:
    status = _apart(script, lambda: script.run(node.body), node.place)
    return script.checked(status, node.place)


def _apart(script: ShellScript, follow: Callable[[], Status], place: Piece) -> Status:
    """Follow something in a shell of its own: it changes nothing but what is left to read."""
    outer, script.state = script.state, script.state.copy()
    script.budget.spend(outer.size)
    script.state.traps.pop("EXIT", None)
    status_before, loops = script.status, script.loops
    script.subshells += 1
    script.loops = 0
    assumed, since = len(script.assumed), len(script.refusals)

    def ended() -> Status:
        with script.ended():
            script.status = status_before
            script.status = follow()
        return script.status

    try:
        status = unclear.until_clear(script, place, ended, within=Around(subshells=1))
        if len(script.assumed) > assumed or len(script.refusals) > since:
            script.cut_short += 1
            return f"{script.where(place)} may end before all of it has run"
        return status
    finally:
        script.subshells -= 1
        script.loops = loops
        refusals = script.refusals[since:]
        if refusals:
            del script.refusals[since:]
            states = [script.state, *(each.state for each in refusals)]
            script.state = merged(states, place, refusals[0].why)
        if script.state.stdin is not outer.stdin:
            outer.stdin = script.state.stdin
        outer.files = script.state.files
        script.state = outer


def captured(script: ShellScript, command: Node, place: Piece) -> tuple[Text, Status]:
    """What a command prints in a shell of its own, and its status."""
    outer, script.printed = script.printed, []
    cut_short = script.cut_short
    try:
        status = _apart(script, lambda: script.run(command), place)
        pieces = [piece for text in script.printed for piece in text.pieces]
    finally:
        script.printed = outer
    if script.cut_short > cut_short:
        pieces = [Piece(UNNAMED, place.file, place.line, str(status))]
    if script.loosely:
        pieces = [Piece(UNNAMED, place.file, place.line, "it runs in a way that is not known")]
    return Text(tuple(pieces) or (place,)), status


def output(script: ShellScript, substitution: Substitution) -> Text:
    """What the commands of a substitution print, or why that is not known."""
    place = substitution.place
    script.captures += 1
    options, script.state.options = script.state.options, script.state.options - {"errexit"}
    if "inherit_errexit" in options:
        script.state.options = options
    stdin = script.state.stdin
    try:
        if substitution.arrow == ">":
            script.state.stdin = None
        read = _read_whole(script, substitution.body)
        text, status = read or captured(script, substitution.body, place)
    finally:
        script.state.options = options
        script.captures -= 1
        if substitution.arrow == ">":
            script.state.stdin = stdin
    if substitution.arrow:
        why = f"{_short(substitution.written)} is a file only while the script runs"
        return Text.at(place, UNNAMED, why)
    script.substituted = status
    if any(each.unknown not in ONE_WORD for each in text.pieces):
        why = str(text.unknown)
        if why.endswith(_NOT_RUN):
            counts = _COUNTS_GPUS.search(substitution.written)
            why = f"{_short(substitution.written)}{_NOT_RUN}{_OF_A_NODE if counts else ''}"
        return Text.at(place, UNNAMED, why)
    return text.without_last_lines()


def _read_whole(script: ShellScript, body: CommandList) -> tuple[Text, Status] | None:
    """$(< file) of a file that is known."""
    match body.commands:
        case (Redirected(Simple((), ()), (Redirect("<", "") as redirect,)),):
            text = files.read(script, redirect)
            return None if text is None else (text, 0)
        case _:
            return None


def printed_by(script: ShellScript, substitution: Substitution) -> Text:
    """What the commands of <(...) print."""
    script.captures += 1
    try:
        return captured(script, substitution.body, substitution.place)[0]
    finally:
        script.captures -= 1


def _of_pipeline(statuses: Sequence[Status]) -> Status:
    """The last of those that failed."""
    for status in reversed(statuses):
        if status != 0:
            return status
    return 0


def _short(written: str) -> str:
    command = " ".join(written.split())
    return command if len(command) <= 60 else f"{command[:56]}...{command[-1]}"


@contextmanager
def _nothing() -> Iterator[None]:
    yield

"""What is called: functions, sourced files, and texts that eval is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainfit.launch.shell import refusals, unclear
from trainfit.launch.shell.errors import ShellError
from trainfit.launch.shell.flow import Jump, LeftError, Status
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.source import Source
from trainfit.launch.shell.state import (
    Function,
)
from trainfit.launch.shell.syntax import (
    Definition,
)
from trainfit.launch.shell.text import Text
from trainfit.launch.shell.unclear import Around

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript

MAX_CALLS = 20
"""Functions, files and evaluated texts within each other."""


def evaluate(script: ShellScript, text: Text) -> Status:
    """Follow a text that the shell has put together."""
    place = text.word()
    source = Source.of(text)
    with _called(script, place):
        before, script.status = script.status, 0
        if not source.content.strip():
            return 0
        script.status = before
        script.include(source)
    return script.status


def source(script: ShellScript, source: Source, arguments: Sequence[Text]) -> Status:
    """Follow a script that this one sources."""
    outer = script.state.parameters
    if arguments:
        script.state.parameters = tuple(arguments)
    place = source.place(0)

    def follow() -> Status:
        script.status = 0
        script.include(source)
        return script.status

    since = len(script.refusals)
    try:
        return _until_returned(script, place, follow)
    finally:
        for state in refusals.reached(script, since):
            state.parameters = outer if arguments else state.parameters


def call(script: ShellScript, name: str, arguments: Sequence[Text], place: Piece) -> Status:
    """Call a function of the script."""
    body = script.state.functions[name].body
    if body is None:
        raise ShellError(f"calls {name}, of which it is not known what it is", place)
    if script.loosely and id(body) in script.active:
        script.not_followed(place, f"{name}, which calls itself in a way that is not known,")
    outer, script.state.parameters = script.state.parameters, tuple(arguments)
    depth, since = len(script.state.frames), len(script.refusals)
    script.state.frames.append({})
    script.functions += 1
    script.active.append(id(body))
    try:
        return _until_returned(script, place, lambda: script.run(body))
    except LeftError as left:
        if left.way is Jump.EXIT and left.state is None:
            left.state = script.state.copy()
        raise
    finally:
        script.active.pop()
        script.functions -= 1
        for state in refusals.reached(script, since):
            state.leave_function(depth, outer)


def _until_returned(script: ShellScript, place: Piece, follow: Callable[[], Status]) -> Status:
    loops, script.loops = script.loops, 0
    seen, script.seen = script.seen, script.seen._replace(loops=0)
    script.returns += 1
    try:
        with _called(script, place):
            return unclear.until_clear(script, place, follow, within=Around(returns=1))
    except LeftError as left:
        if left.way is not Jump.RETURN:
            raise
        return left.status
    finally:
        script.loops, script.seen = loops, seen
        script.returns -= 1


@contextmanager
def _called(script: ShellScript, place: Piece) -> Iterator[None]:
    if script.calls >= MAX_CALLS:
        message = f"calls functions and scripts more than {MAX_CALLS} levels deep"
        raise ShellError(message, place)
    script.calls += 1
    try:
        yield
    finally:
        script.calls -= 1


def follow_definition(script: ShellScript, node: Definition) -> Status:
    if script.loosely and node.name in script.state.functions:
        script.state.functions[node.name] = Function(None, node.place)
    else:
        script.state.functions[node.name] = Function(node.body, node.place)
    return 0

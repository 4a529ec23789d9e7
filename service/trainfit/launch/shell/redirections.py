"""Where a command reads from and prints to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainfit.launch.shell import files
from trainfit.launch.shell.flow import Status
from trainfit.launch.shell.syntax import (
    Redirect,
    Redirected,
    Simple,
)

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript


def follow_redirected(script: ShellScript, node: Redirected) -> Status:
    if isinstance(node.command, Simple):
        return script.command(node.command, node.redirects)
    with redirecting(script, node.redirects):
        return script.run(node.command)


@contextmanager
def redirecting(script: ShellScript, redirects: Sequence[Redirect]) -> Iterator[None]:
    """What is read and printed goes where the redirections of a command say."""
    if not redirects:
        yield
        return
    stdin, printed = script.state.stdin, script.printed
    reads, target = False, None
    for redirect in redirects:
        if redirect.descriptor not in ("", "0", "1", "2"):
            continue
        if redirect.operator.startswith("<"):
            if redirect.descriptor in ("", "0"):
                reads = True
                script.state.stdin = files.read(script, redirect)
            continue
        target = files.written_to(script, redirect, target)
    if target is not None:
        script.printed = target.printed
    try:
        yield
    finally:
        if reads:
            script.state.stdin = stdin
        script.printed = printed
        if target is not None:
            target.close(script)

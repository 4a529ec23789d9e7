"""for, while and until: their rounds, as long as it is known how they go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from trainfit.launch.shell import arithmetic, unclear
from trainfit.launch.shell.arithmetic import BadExpressionError
from trainfit.launch.shell.flow import Jump, LeftError, Status, UnclearError
from trainfit.launch.shell.state import (
    MAX_STEPS,
    Variable,
    unknown,
)
from trainfit.launch.shell.syntax import (
    Chain,
    CommandList,
    CountingFor,
    For,
    If,
    Node,
    Simple,
    While,
    Word,
)
from trainfit.launch.shell.text import Text

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript

MAX_ROUNDS = 1000
"""Of a loop; one that waits for something never ends."""
MAX_WAITING = MAX_STEPS // 4
"""Steps of a loop that is left by a condition, after which it is taken to wait for something."""


def follow_for(script: ShellScript, node: For) -> Status:
    if node.words is None:
        words: Sequence[Text] = script.state.parameters or ()
    else:
        words = script.expander().words(node.words)
    why = next((text.unknown for text in words if text.spreads), None)
    if script.state.parameters is None and node.words is None:
        why = script.state.unset("1")
    if node.selects:
        why = "what is selected is known only when it runs"

    def once() -> Status:
        script.assign(node.name, unknown(node.name, node.place, str(why)), node.place)
        return _seen_once(script, node.body)

    def rounds() -> Status:
        if why is not None:
            raise UnclearError(why)
        status: Status = 0
        body = _running_out(node.body)
        for number, text in enumerate(words, 1):
            if script.state.variables.get(node.name, Variable(None)).readonly:
                return 1
            script.assign(node.name, Text(text.pieces), node.place)
            status, goes_on = _round(script, body, number)
            if not goes_on:
                break
        return status

    return unclear.until_clear(script, node.place, rounds, once)


def follow_counting_for(script: ShellScript, node: CountingFor) -> Status:
    def calculated(word: Word, default: int) -> int:
        expander = script.expander()
        text = expander.value(word, quoted=True)
        is_empty = text.unknown is None and not str(text).strip()
        return default if is_empty else expander.answered(text, word.place)

    def rounds() -> Status:
        status: Status = 0
        body = _running_out(node.body)
        try:
            calculated(node.start, 0)
            for number in count(1):
                if not calculated(node.condition, 1):
                    break
                status, goes_on = _round(script, body, number)
                if not goes_on:
                    break
                calculated(node.step, 0)
        except BadExpressionError:
            return 1
        return status

    def once() -> Status:
        texts = (script.expander().value(each) for each in (node.start, node.condition, node.step))
        for text in texts:
            script.forget(arithmetic.assigned(str(text)), node.place, "a loop counts with it")
        return _seen_once(script, node.body)

    return unclear.until_clear(script, node.place, rounds, once)


def follow_while(script: ShellScript, node: While) -> Status:
    def rounds() -> Status:
        last: Status = 0
        begun, body = script.budget.steps, _running_out(node.body)
        for number in count(1):
            if script.budget.steps - begun > MAX_WAITING:
                raise UnclearError(f"it goes round for more than {MAX_WAITING} steps")
            script.loops += 1
            try:
                with script.guard():
                    status = script.run(node.condition)
            except LeftError as left:
                if left.way not in (Jump.BREAK, Jump.CONTINUE):
                    raise
                if left.levels > 1:
                    raise LeftError(left.way, levels=left.levels - 1) from None
                if left.way is Jump.BREAK:
                    return 0
                continue
            finally:
                script.loops -= 1
            if isinstance(status, str):
                raise UnclearError(status)
            if (status == 0) == node.until:
                return last
            before = script.state.copy()
            last, goes_on = _round(script, body, number)
            if not goes_on:
                return last
            if script.state == before:
                raise UnclearError("it goes round until something outside of the script changes")
        return last

    def once() -> Status:
        with script.guard():
            _seen_once(script, node.condition)
        return _seen_once(script, node.body)

    return unclear.until_clear(script, node.place, rounds, once)


def _seen_once(script: ShellScript, part: Node) -> Status:
    """A part of a loop of which it is not known how often it goes round."""
    script.loops += 1
    try:
        return script.run(part)
    finally:
        script.loops -= 1


def _round(script: ShellScript, body: Node, number: int) -> tuple[Status, bool]:
    """One round of a loop: its status, and whether it may go on. One in which the script would
    have ended but for a guard that was passed tells nothing of the next. `body` is `_running_out`.
    """
    if number > MAX_ROUNDS:
        raise UnclearError(f"it goes round more than {MAX_ROUNDS} times")
    script.loops += 1
    passed = len(script.passed)
    try:
        status = script.run(body)
        if len(script.passed) > passed:
            raise UnclearError("the script ends in it, unless what it checks is there")
        return status, True
    except LeftError as left:
        if left.way not in (Jump.BREAK, Jump.CONTINUE):
            raise
        if left.levels > 1:
            raise LeftError(left.way, levels=left.levels - 1) from None
        return 0, left.way is Jump.CONTINUE
    finally:
        script.loops -= 1


def _running_out(body: Node) -> Node:
    """The body of a loop without each `continue` behind which nothing of it stands, so that no
    round is cut short where it only ends.
    """
    match body:
        case Simple(assignments=(), words=(Word() as name,)) if name.bare == "continue":
            return CommandList(())
        case CommandList(commands=(*before, last)):
            return CommandList((*before, _running_out(last)))
        case If():
            branches = tuple((condition, _as_block(then)) for condition, then in body.branches)
            otherwise = None if body.otherwise is None else _as_block(body.otherwise)
            return replace(body, branches=branches, otherwise=otherwise)
        case Chain(others=(*before, (sign, last))):
            return replace(body, others=(*before, (sign, _running_out(last))))
    return body


def _as_block(body: CommandList) -> CommandList:
    out = _running_out(body)
    assert isinstance(out, CommandList)
    return out

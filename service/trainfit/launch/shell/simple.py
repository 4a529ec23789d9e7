"""Simple commands: their words, variables that are their own, and what they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainfit.launch.shell import assignments, files, functions, redirections, refusals
from trainfit.launch.shell.builtins import BUILTINS, SUCCEEDING
from trainfit.launch.shell.declarations import declare
from trainfit.launch.shell.expansion import UNNAMED
from trainfit.launch.shell.flow import Status
from trainfit.launch.shell.parser import DECLARING
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.programs import PROGRAMS
from trainfit.launch.shell.started import Command
from trainfit.launch.shell.state import Variable
from trainfit.launch.shell.syntax import Assignment, Redirect, Simple, Word
from trainfit.launch.shell.text import Text

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript


def follow_simple(script: ShellScript, node: Simple) -> Status:
    return command(script, node, ())


def command(script: ShellScript, node: Simple, redirects: Sequence[Redirect]) -> Status:
    """A simple command. Its words are expanded first, then what is redirected and assigned."""
    script.substituted = None
    first = node.words[0] if node.words else None
    name = "" if first is None else _bare(first)
    if name in DECLARING and name not in script.state.functions:
        with redirections.redirecting(script, redirects):
            return script.checked(declare(script, name, node), node.place)
    plain = [each for each in node.words if isinstance(each, Word)]
    expander = script.expander()
    tests = name in ("[", "test") and name not in script.state.functions
    words = expander.asked(plain) if tests else expander.words(plain)
    if words:
        return script.checked(_with(script, node.assignments, words, redirects), node.place)
    with redirections.redirecting(script, redirects):
        for assignment in node.assignments:
            assignments.assigned(script, assignment)
    return script.checked(_last_substituted(script), node.place)


def _last_substituted(script: ShellScript) -> Status:
    return 0 if script.substituted is None else script.substituted


def _with(
    script: ShellScript,
    own: Sequence[Assignment],
    words: Sequence[Text],
    redirects: Sequence[Redirect],
) -> Status:
    """Run a command with variables that are its own."""
    before: dict[str, Variable | None] = {}
    since = len(script.refusals)
    try:
        for assignment in own:
            held = script.state.variables.get(assignment.name)
            if held is not None and held.readonly:
                assignments.value_of(script, assignment.value, keyed=held.keyed)
                continue
            assignments.assigned(script, assignment, before)
            variable = script.state.variables.get(assignment.name)
            if variable is not None:
                exported = variable._replace(exported=True, doubt="")
                script.state.variables[assignment.name] = exported
        with redirections.redirecting(script, redirects):
            return invoke(script, words, _place_of(words))
    finally:
        for state in refusals.reached(script, since):
            for each, outer in before.items():
                state.restore(each, outer)


def invoke(
    script: ShellScript, words: Sequence[Text], place: Piece, *, calls: bool = True
) -> Status:
    """Run a command of these words: a function, the shell's own, or a program."""
    name = str(words[0])
    if words[0].unknown is None:
        if calls and name in script.state.functions:
            return functions.call(script, name, words[1:], place)
        if name in BUILTINS:
            return BUILTINS[name](script, words[1:], place)
        if name in DECLARING:
            script.not_followed(place, f"{name} in other words")
        known = PROGRAMS.get(name)
        if known is not None:
            status = known(script, words[1:], place)
            if status is not None:
                return status
    return start(script, words, place)


def start(script: ShellScript, words: Sequence[Text], place: Piece) -> Status:
    """A program, whose words are kept."""
    name = str(words[0])
    printed = None if script.loosely else script.prints([str(text) for text in words])
    if printed is not None:
        output, status = printed
        if output:
            script.emit(Text.at(place, output))
        return status
    why = f"{name} is not run; write what it prints in its place"
    succeeds = name in SUCCEEDING and words[0].unknown is None
    if script.printed is not None and not (succeeds and name not in ("date", "ls")):
        script.printed.append(Text.at(place, UNNAMED, why))
    files.touched(script, words, place)
    listed = tuple(text.word() for text in words)
    if words[0].unknown is not None:
        script.note_end(listed[0], f"what {name} starts is not known: {words[0].unknown}")
    if succeeds:
        return 0
    stdin = None if script.state.stdin is None else script.state.stdin.word()
    if stdin is not None:
        script.budget.spend(len(stdin.text) // 8)
    script.commands.append(
        Command(
            listed,
            script.state.variables.environment(script.budget.spend),
            script.doubt or next((each.why for each in script.refusals), None),
            script.state.files,
            captured=bool(script.captures),
            stdin=stdin,
        )
    )
    return f"whether {name} succeeds at {script.where(place)} is known only when it runs"


def _place_of(words: Sequence[Text]) -> Piece:
    first = words[0].word()
    return Piece("", first.file, first.line)


def _bare(word: Word | Assignment) -> str:
    return "" if isinstance(word, Assignment) else word.bare or ""

"""What the reader says of a script, beside what bash does with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tests.shell.bash_itself import EXPORTED, LAUNCHERS, Launch
from trainfit.launch.shell.errors import ShellError
from trainfit.launch.shell.script import ShellScript
from trainfit.launch.shell.source import Source
from trainfit.launch.shell.started import Command
from trainfit.launch.shell.state import Budget, State, Variable, Variables
from trainfit.launch.shell.text import Text
from trainfit.specs.launch import LaunchFile


class Verdict(Enum):
    KNOWN = "known"
    NOT_KNOWN = "not known"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Reading:
    """The launches of a script as they are read; None where it is refused."""

    commands: Sequence[Command] | None
    may_end: bool = False
    """Whether the script may end before them, and is taken to go on."""
    why: str = ""


def read(
    script: str,
    arguments: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Reading:
    given = {
        name: Variable(Text.of(value, "env", None), exported=True)
        for name, value in (variables or {}).items()
    }
    sent = {path: LaunchFile(path=path, content=content) for path, content in (files or {}).items()}
    parameters = tuple(Text.of(each, "argv", None) for each in arguments)
    shell = ShellScript(
        State(Variables(given), parameters),
        Budget(),
        lambda path: sent.get(path.removeprefix("./")),
    )
    try:
        shell.follow(Source.of_script(script, "run.sh"))
    except ShellError as error:
        return Reading(None, why=str(error))
    commands = [each for each in shell.commands if _is_launch(each)]
    return Reading(commands, bool(shell.assumed))


def _is_launch(command: Command) -> bool:
    return command.words[0].text in LAUNCHERS or command.words[0].unknown is not None


def judge(reading: Reading, launches: Sequence[Launch] | None) -> Verdict:
    """Whether a reading is what bash does, or does not say what it is."""
    if reading.commands is None:
        return Verdict.NOT_KNOWN
    if all(_is_known(each) for each in reading.commands):
        if launches is None:
            return Verdict.WRONG
        said = sorted(_launch(each) for each in reading.commands)
        done = sorted(launches)
        prefix = reading.may_end and all(each in said for each in done)
        return Verdict.KNOWN if said == done or prefix else Verdict.WRONG
    if launches is None:
        return Verdict.NOT_KNOWN
    for launch in launches:
        if not any(_may_be(each, launch) for each in reading.commands):
            return Verdict.WRONG
    for command in reading.commands:
        certain = command.doubt is None and not reading.may_end
        certain = certain and command.words[0].unknown is None
        if certain and not any(_may_be(command, launch) for launch in launches):
            return Verdict.WRONG
    return Verdict.NOT_KNOWN


def _is_known(command: Command) -> bool:
    variables = (each for name, each in command.environment.items() if name in EXPORTED)
    words = all(word.unknown is None for word in command.words)
    return words and command.doubt is None and all(each.unknown is None for each in variables)


def _launch(command: Command) -> Launch:
    variables = ((name, command.environment.get(name)) for name in EXPORTED)
    given = tuple((name, str(each.text)) for name, each in variables if each is not None)
    return tuple(word.text for word in command.words), given


def _may_be(command: Command, launch: Launch) -> bool:
    """Whether a command with words that are not known may be this launch."""
    words = "".join(
        re.escape(word.text) + "\0" if word.unknown is None else "(?:[^\0]*\0)*"
        for word in command.words
    )
    if re.fullmatch(words, "".join(f"{word}\0" for word in launch[0]), re.DOTALL) is None:
        return False
    done = dict(launch[1])
    for name in EXPORTED:
        said = command.environment.get(name)
        if said is None and name in done and command.doubt is None:
            return False
        told = said is not None and said.unknown is None and command.doubt is None
        if told and said is not None and done.get(name) != str(said.text):
            return False
    return True

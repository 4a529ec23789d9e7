"""What a script's commands are, as the service reads them and as bash itself runs them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping

import pytest

from trainfit.launch.shell.script import ShellScript
from trainfit.launch.shell.source import Source
from trainfit.launch.shell.started import Command
from trainfit.launch.shell.state import Budget, State, Variable, Variables
from trainfit.launch.shell.text import Text

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash itself is not here")


def commands(script: str, *arguments: str, **variables: str) -> list[Command]:
    """The commands that a script runs, given these arguments and variables."""
    given = {
        name: Variable(Text.of(value, "env", None), exported=True)
        for name, value in variables.items()
    }
    parameters = tuple(Text.of(each, "argv", None) for each in arguments)
    shell = ShellScript(State(Variables(given), parameters or None), Budget(), lambda _: None)
    shell.follow(Source.of_script(script, "run.sh"))
    return shell.commands


def words(script: str, *arguments: str, **variables: str) -> list[str]:
    """The arguments of the one `train` that a script runs."""
    (command,) = [each for each in commands(script, *arguments, **variables) if _trains(each)]
    return [word.text for word in command.words[1:]]


def _trains(command: Command) -> bool:
    return command.words[0].text == "train"


def run_by_bash(script: str, *arguments: str, **variables: str) -> list[list[str]]:
    """The arguments of every `train` as bash runs the script, where that is a function."""
    printed = "for w in \"$@\"; do printf '%s\\0' \"$w\"; done; printf '\\1\\0'"
    defined = f"exec 3>&1\ntrain() {{ {printed}; }} >&3\n"
    environment: Mapping[str, str] = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **variables}
    run = subprocess.run(
        ["bash", "-c", defined + script, "run.sh", *arguments],
        capture_output=True,
        timeout=10,
        check=False,
        env=dict(environment),
    )
    calls = run.stdout.decode().split("\1\0")[:-1]
    return [call.split("\0")[:-1] for call in calls]

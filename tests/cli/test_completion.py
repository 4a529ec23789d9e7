"""What shells complete commands with."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, Run

CHECKS = {"bash": ["bash", "-n"], "zsh": ["zsh", "-n"], "fish": ["fish", "--no-execute"]}
Script = Callable[[str], Outcome]


@pytest.fixture(scope="module")
def made() -> dict[str, Outcome]:
    """What was printed by shell: to make one takes half a second."""
    return {}


@pytest.fixture
def script(run: Run, made: dict[str, Outcome]) -> Script:
    return lambda shell: made.get(shell) or made.setdefault(shell, run(f"completion {shell}"))


@pytest.mark.parametrize("shell", CHECKS)
def test_every_shell_has_a_script_with_every_command_and_flag(script: Script, shell: str) -> None:
    made = script(shell)
    assert (made.code, made.err) == (0, "")
    words = ("estimate", "fit-check", "num-gpus", "seq-length", "torchtitan")
    assert all(word in made.out for word in words)


@pytest.mark.parametrize("shell", CHECKS)
def test_the_shell_reads_it(script: Script, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} IS NOT INSTALLED: its completion was not read")
    subprocess.run(
        CHECKS[shell], input=script(shell).out, text=True, check=True, capture_output=True
    )


def test_the_script_for_zsh_calls_what_it_defines(script: Script) -> None:
    text = script("zsh").out
    (function,) = re.findall(r"^(\w+)\(\) \{", text, re.MULTILINE)
    body, _, rest = text.partition("\n}\n")
    assert function in body
    assert f'{function} "$@"' in rest
    assert f"compdef {function} trainfit" in rest


def test_zsh_completes_by_a_file_of_fpath_and_by_one_that_is_sourced(
    script: Script, tmp_path: Path
) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh IS NOT INSTALLED: its completion was not called")
    (tmp_path / "_trainfit").write_text(script("zsh").out)
    asked = (
        "_arguments() { print offers }\ncompdef() { print of $2 }\n"
        f"fpath=({tmp_path})\nautoload -Uz _trainfit\n_trainfit\n. {tmp_path}/_trainfit\n"
    )
    done = subprocess.run(["zsh", "-f"], input=asked, text=True, check=True, capture_output=True)
    assert done.stdout.splitlines() == ["offers", "of trainfit"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("trainfit est", "estimate"),
        ("trainfit estimate --num-g", "--num-gpus"),
        ("trainfit estimate --framework to", "torchtitan"),
        ("trainfit fit-check --seq", "--seq-length"),
    ],
)
def test_bash_completes(script: Script, typed: str, offered: str) -> None:
    words = " ".join(f"'{word}'" for word in typed.split())
    asked = (
        f"{script('bash').out}\n"
        f"COMP_WORDS=({words}); COMP_CWORD={len(typed.split()) - 1}; COMP_LINE='{typed}'\n"
        "function=$(complete -p trainfit | sed 's/.*-F \\([^ ]*\\) .*/\\1/')\n"
        'COMP_POINT=${#COMP_LINE}; "$function" trainfit; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash"], input=asked, text=True, check=True, capture_output=True)
    assert offered in done.stdout.split()

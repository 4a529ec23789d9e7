"""`trainfit guard` and `trainfit capture`: a gate in front of the command that trains."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.gate.asking import asking_here
from trainfit.cli.gate.cases import CheckedJob, Gate
from trainfit.cli.gate.table import print_table
from trainfit.cli.launches import on_card
from trainfit.cli.lookup import looking_up
from trainfit.cli.started import Started, card
from trainfit.launch.commands.unwrap import LAUNCHERS


def _about(text: str, **options: Any) -> Parameter:
    return Parameter(help=text, show_default=False, negative=(), **options)


COMMAND = _about("Behind --: the command that starts training.", allow_leading_hyphen=True)
SCRIPT = _about("Behind --: a script that starts training.", allow_leading_hyphen=True)
GPU = _about("The card. Unset: that of this machine, as nvidia-smi tells it.")
FAIL_ON = _about("does-not-fit unless given; tight stops what may fit and may not, too.")
ON_ERROR = _about("Whether to start where nobody could answer. Unset: fail.")
ONLINE = _about("Look up models on the Hugging Face Hub, too, not in caches and the package only.")

FailOn = Literal["does-not-fit", "tight"]
OnError = Literal["pass", "fail"]
RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
"""Where a launcher starts this on every rank, the first alone tells."""
RECORD = "TRAINFIT_RECORD"


def guard(
    *command: Annotated[str, COMMAND],
    gpu: Annotated[str | None, GPU] = None,
    fail_on: Annotated[FailOn, FAIL_ON] = "does-not-fit",
    on_error: Annotated[OnError, ON_ERROR] = "fail",
    online: Annotated[bool, ONLINE] = False,
) -> int:
    """Check a command as it is about to start, and become it if it passes.

    No shell is read: the words are final, the environment and the card are those of this machine.
    """
    if not command:
        raise RefusedCommandError("trainfit: give the command behind --")
    started = Started(command, os.environ, Path.cwd())
    gate = Gate(fail_on_tight=fail_on == "tight", fail_on_error=on_error == "fail")
    code = _checked([started], gpu, gate, online=online)
    if code:
        return code
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise RefusedCommandError(f"trainfit: {command[0]}: {error.strerror}") from None


def capture(
    *command: Annotated[str, SCRIPT],
    gpu: Annotated[str | None, GPU] = None,
    fail_on: Annotated[FailOn, FAIL_ON] = "does-not-fit",
    on_error: Annotated[OnError, ON_ERROR] = "fail",
    online: Annotated[bool, ONLINE] = False,
) -> int:
    """Run a script with recorders in the place of what starts training, and check what it would
    have started. All else that the script does happens, on this machine.
    """
    if not command:
        raise RefusedCommandError("trainfit: give the script behind --")
    with TemporaryDirectory() as folder:
        found = list(_captured(command, Path(folder)))
    if not found:
        raise RefusedCommandError("trainfit: nothing that trains was started")
    gate = Gate(fail_on_tight=fail_on == "tight", fail_on_error=on_error == "fail")
    return _checked(found, gpu, gate, online=online)


def _checked(found: Sequence[Started], gpu: str | None, gate: Gate, *, online: bool) -> int:
    """The exit code of the gate, explained on stderr: what is started has stdout to itself."""
    target = gpu or card()
    if target is None:
        raise RefusedCommandError("trainfit: no card is found here; give --gpu")
    shown = target if isinstance(target, str) else "the card of this machine"
    with looking_up(online=online) as look_up:
        ask = asking_here(look_up)
        cases = [CheckedJob(each, shown, ask(_on(each.job, target))) for each in found]
    if all(os.environ.get(name, "0") == "0" for name in RANKS):
        with redirect_stdout(sys.stderr):
            print_table(cases, gate)
    return gate.exit_code(cases)


def _on(job: Mapping[str, Any], target: str | dict[str, int]) -> dict[str, Any]:
    if isinstance(target, str):
        return on_card(job, target)
    return {**job, "launch": {**job["launch"], "gpu": target}}


RECORDER = """#!{python}
import json, os, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
starts = name not in {pythons} or (
    words[:1] == ["-m"] and words[1:2] and words[1].startswith({modules})
    or any(word.endswith(".py") for word in words[:3]) and "-c" not in words[:3]
)
if not starts:
    os.environ["PATH"] = os.environ["PATH"].split(os.pathsep, 1)[1]
    os.execvp(name, [name, *words])
record = {{"words": [name, *words], "environment": dict(os.environ), "folder": os.getcwd()}}
with open(os.environ["{variable}"], "a", encoding="utf-8") as file:
    file.write(json.dumps(record) + "\\n")
"""
PYTHONS = ("python", "python3")
MODULES = ("torch.distributed", "deepspeed", "accelerate", "axolotl", "torchtitan", "verl")
"""Modules that train, or start what trains."""


def _captured(command: Sequence[str], folder: Path) -> Iterator[Started]:
    """What a script starts, in a folder for recorders. Raises RefusedCommandError where it cannot
    be run.
    """
    text = RECORDER.format(python=sys.executable, pythons=PYTHONS, modules=MODULES, variable=RECORD)
    for name in (*LAUNCHERS, *PYTHONS):
        recorder = folder / name
        recorder.write_text(text, "utf-8")
        recorder.chmod(0o700)
    record = folder / "started.jsonl"
    path = os.pathsep.join((str(folder), os.environ.get("PATH", os.defpath)))
    if shutil.which(command[0]) is None:
        raise RefusedCommandError(f"trainfit: {command[0]}: is no command here")
    subprocess.run(command, env={**os.environ, "PATH": path, RECORD: str(record)}, check=False)
    with suppress(FileNotFoundError):
        for line in record.read_text("utf-8").splitlines():
            started = json.loads(line)
            yield Started(started["words"], started["environment"], Path(started["folder"]))

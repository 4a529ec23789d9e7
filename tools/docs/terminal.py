"""What the commands of the documentation print."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache, partial
from io import StringIO
from pathlib import Path

from tools.docs.markdown import listing
from trainfit.cli import main

ROOT = Path(__file__).parents[2]
COLUMNS = 110

ESTIMATE = (
    "trainfit estimate deepseek-ai/DeepSeek-V3 --tp 4 --pp 4 --ep 8 --num-gpus 128 "
    "--num-layers-in-last-pipeline-stage 16"
)
UNEVEN = "trainfit estimate Qwen/Qwen3-235B-A22B --tp 8 --pp 4 --ep 4 --num-gpus 128"
COMMANDS = {
    "terminal": f"{ESTIMATE} --gpu H100-80GB",
    "terminal-summary": f"{ESTIMATE} --summary gb",
    "terminal-tree": f"{ESTIMATE} --tree --stage 0",
    "terminal-refusal": UNEVEN,
    "terminal-torchtitan": (
        "trainfit estimate meta-llama/Llama-3.1-8B --framework torchtitan --compile --num-gpus 8 "
        "--micro-batch-size 1 --num-microbatches 1 --seq-length 8192 "
        "--recompute-granularity selective --gpu H100-80GB"
    ),
    "terminal-lora": (
        "trainfit estimate Qwen/Qwen3-8B --framework transformers --peft lora "
        "--precision bf16-pure --micro-batch-size 2 --num-microbatches 8 --seq-length 4096 "
        "--recompute-granularity full --gpu L40S"
    ),
    "terminal-fit-check": "trainfit fit-check deploy/ci/example-jobs.yaml",
    "terminal-launch": "trainfit fit-check deploy/ci/example-pretrain.sh --gpu H100-80GB",
    "terminal-compare": "trainfit compare deploy/ci/example-jobs.yaml",
    "examples": "trainfit",
    "help": "trainfit --help",
    "help-compare": "trainfit compare --help",
    "help-estimate": "trainfit estimate --help-all",
    "help-fit-check": "trainfit fit-check --help",
    "help-keys": "trainfit keys new --help",
    "help-models": "trainfit models --help",
    "help-models-list": "trainfit models list --help",
    "help-models-pull": "trainfit models pull --help",
    "help-gpus": "trainfit gpus --help",
    "help-serve": "trainfit serve --help",
}
"""The commands that are shown with what they print, by the name of their place."""


@cache
def all_printed() -> Mapping[str, str]:
    """What each command prints, one after the other in one process of their own: nothing that
    another has loaded or drawn before decides how they look.
    """
    environment = {**surroundings(), "COLUMNS": str(COLUMNS)}
    done = subprocess.run(
        [sys.executable, "-m", __name__], cwd=ROOT, env=environment, check=True, capture_output=True
    )
    told: dict[str, str] = json.loads(done.stdout)
    return told


def surroundings() -> dict[str, str]:
    """The environment of a command that shall print the same wherever it runs."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TRAINFIT_", "HF_")) and name not in ("COLUMNS", "FORCE_COLOR")
    }
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": os.devnull, "TRAINFIT_CACHE_DIR": ""}
    return {**kept, **offline, "NO_COLOR": "1"}


def _printed(command: str) -> str:
    """Both streams of a command that a user gives at the root."""
    program, *arguments = shlex.split(command)
    assert program == "trainfit"
    streams = StringIO()
    with redirect_stdout(streams), redirect_stderr(streams), suppress(SystemExit):
        main(arguments)
    return "\n".join(line.rstrip() for line in streams.getvalue().splitlines())


def shown(command: str) -> str:
    """A command and what it prints."""
    return listing(f"$ {command}\n{all_printed()[command]}", "console")


BLOCKS = {name: partial(shown, command) for name, command in COMMANDS.items()}

if __name__ == "__main__":
    json.dump({command: _printed(command) for command in COMMANDS.values()}, sys.stdout)

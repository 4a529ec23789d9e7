"""Launches as tests write them, and what is found in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

from trainfit.launch.commands.unwrap import programs_of
from trainfit.launch.program import TrainingProgram
from trainfit.specs.launch import Launch

DATA = Path(__file__).parents[2] / "data/launch/commands"


def launch(
    argv: str | Sequence[str] | None = None, env: Mapping[str, str] | None = None, **files: str
) -> Launch:
    """A launch; a file's name has _ for its last dot."""
    sent = [
        {"path": ".".join(name.rsplit("_", 1)), "content": text} for name, text in files.items()
    ]
    return Launch.model_validate({"argv": argv, "env": env or {}, "files": sent})


def program(
    argv: str | Sequence[str] | None = None, env: Mapping[str, str] | None = None, **files: str
) -> TrainingProgram:
    """The one program of a launch."""
    (found,) = programs_of(launch(argv, env, **files)).programs
    return found


def num_gpus(found: TrainingProgram) -> int | None:
    """The number of GPUs, where it is said and known."""
    if not found.num_gpus or any(each.unknown is not None for each in found.num_gpus):
        return None
    return prod(int(each.value) for each in found.num_gpus)


def command_line(found: TrainingProgram) -> str:
    return " ".join(found.words())

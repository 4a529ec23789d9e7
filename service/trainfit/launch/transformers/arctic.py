"""ArcticTraining: a YAML file that its command names, or that was sent alone.

What becomes of its keys stands in `scripts.json`, as of a script of Trainer's. Source:
snowflakedb/ArcticTraining arctic_training/config/trainer.py (TrainerConfig).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainfit.launch.documents import mapping_in
from trainfit.launch.program import TrainingProgram, Word
from trainfit.specs.launch import LaunchFile

PROGRAM = "arctic_training"
MODEL, PATH = "model", "name_or_path"


def is_arctic(program: TrainingProgram) -> bool:
    """Whether this is its command, or a file of its keys alone."""
    return program.name == PROGRAM or _file_alone(program) is not None


def as_command(program: TrainingProgram) -> TrainingProgram:
    """The program with the command that a file alone is for; any other as it is."""
    file = _file_alone(program)
    if file is None:
        return program
    return replace(program, name=PROGRAM, arguments=(Word(file.path, file.path, 1),))


def _file_alone(program: TrainingProgram) -> LaunchFile | None:
    """The one file of its keys, where no command was sent."""
    if program.name is not None:
        return None
    found = [each for each in program.files.values() if _is_config(mapping_in(each, PATH) or {})]
    return found[0] if len(found) == 1 else None


def _is_config(keys: Mapping[str, object]) -> bool:
    """Whether these are its keys: what is trained on is a list of sources beside the model."""
    model, data = keys.get(MODEL), keys.get("data")
    named = isinstance(model, dict) and PATH in model
    return named and isinstance(data, dict) and "sources" in data

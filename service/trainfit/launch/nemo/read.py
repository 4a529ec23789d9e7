"""A launch of NeMo 2 -> a draft of a job."""

from __future__ import annotations

from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.megatron.environment import read_environment
from trainfit.launch.megatron.stacks import NEMO, put_stack
from trainfit.launch.nemo.command import (
    RecipeCommand,
    called_by,
    command_of,
    is_command,
    with_overrides,
)
from trainfit.launch.nemo.fields import read_fields
from trainfit.launch.nemo.recipes import settings_of
from trainfit.launch.nemo.script import RecipeScript, is_script, script_of
from trainfit.launch.program import TrainingProgram
from trainfit.specs.launch import LaunchFile


def recognises(program: TrainingProgram) -> bool:
    """By NeMo's own program, or a script that calls one of its recipes."""
    return is_command(program) or _script(program) is not None


def _script(program: TrainingProgram) -> LaunchFile | None:
    """The script that a command starts; without a command, the only one there is."""
    if program.name is not None:
        file = program.file(program.name) if program.name.endswith(".py") else None
        return file if file is not None and is_script(file) else None
    found = [file for file in program.files.values() if is_script(file)]
    return found[0] if len(found) == 1 else None


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Put a recipe with what is said over it into a draft, as a release of NeMo has it. Raises
    LaunchError.
    """
    file = None if is_command(program) else _script(program)
    words = program.arguments if file is not None else program.arguments[2:]
    command = command_of(words, draft)
    script = _read_script(file, command, program)
    settings = with_overrides(settings_of(script.called, version, draft), script.overrides, draft)
    settings = with_overrides(settings, command.overrides, draft)
    for setting in script.left:
        draft.leave_out(setting, "what the script does here with its recipe is not known")
    read_fields(settings, draft)
    put_stack(draft, NEMO, "NeMo")
    read_environment({**program.environment, **script.environment}, draft)


def _read_script(
    file: LaunchFile | None, command: RecipeCommand, program: TrainingProgram
) -> RecipeScript:
    factory = command.factory
    if file is not None:
        return script_of(file, None if factory is None else str(factory.value))
    if factory is None:
        raise LaunchError(Complaint("names no recipe; give it as --factory"))
    return RecipeScript(called_by(program.arguments[1].text, factory))

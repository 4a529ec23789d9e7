"""Files of a run that no command names: each is known by its keys, and by what others say of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trainfit.launch.accelerate.config import MARKS as ACCELERATES
from trainfit.launch.accelerate.config import by_flag
from trainfit.launch.deepspeed.zero import is_config
from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.missing import not_read
from trainfit.launch.models import is_model_config
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.command_line import DOCUMENTS, keys_of, settings_in

NAMING = ("deepspeed", "deepspeed_config", "fsdp_config", "deepspeed_config_file")
"""Keys whose value may be the path of another file."""


class FileSettings(NamedTuple):
    """What the files of a launch without a command say: the arguments, accelerate's config, and
    the paths of DeepSpeed's and of models' configs.
    """

    arguments: dict[str, Setting]
    accelerate: dict[str, Setting]
    deepspeed: list[str]
    models: list[str]


def sent_files(program: TrainingProgram) -> FileSettings:
    """Sort files by what they are. Raises LaunchError for one that is none, and where two say the
    same argument.
    """
    found = FileSettings({}, {}, [], [])
    beside: list[str] = []
    for path, keys in _documents(program):
        if any(mark in keys for mark in ACCELERATES):
            found.accelerate.update(by_flag(settings_in(program.files[path])))
        elif is_config(keys):
            found.deepspeed.append(path)
        elif is_model_config(path, keys):
            found.models.append(path)
        else:
            beside.append(path)
    written = {path: settings_in(program.files[path]) for path in beside}
    named = {
        str(settings[key].value).rpartition("/")[2]
        for settings in written.values()
        for key in NAMING
        if key in settings
    }
    for path, settings in written.items():
        if path.rpartition("/")[2] in named:
            continue
        if twice := found.arguments.keys() & settings.keys():
            first, second = found.arguments[min(twice)], settings[min(twice)]
            message = f"{first.where} is said in {second.file} too; which is meant?"
            raise LaunchError(Complaint(message, second.file, second.line))
        found.arguments.update(settings)
    return found


def leave_out_unnamed(
    program: TrainingProgram, draft: Draft, *, deepspeed: bool, accelerate: bool
) -> None:
    """Note configs that were sent and that the run does not read, as nothing names them: those of
    `deepspeed`, where no command is known that could, and those of `accelerate`, where it launches.
    """
    for path in program.files:
        try:
            keys = keys_of(program.files[path]).value if path.endswith(DOCUMENTS) else {}
        except LaunchError:
            continue
        if deepspeed and is_config(keys):
            draft.unnamed.append(Setting("deepspeed", path, path, 1))
        elif accelerate and any(mark in keys for mark in ACCELERATES):
            setting = Setting("config_file", path, path, 1)
            draft.leave_out(setting, not_read("config_file"))


def _documents(program: TrainingProgram) -> Iterator[tuple[str, dict[str, object]]]:
    """The keys of every file that was sent. Raises LaunchError for one that has none."""
    for path, file in program.files.items():
        if not path.endswith(DOCUMENTS):
            raise LaunchError(Complaint(f"{path}: is neither JSON nor YAML", path, 1))
        yield path, keys_of(file).value

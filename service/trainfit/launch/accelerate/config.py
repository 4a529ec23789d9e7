"""accelerate's config and the flags of its launcher as one set of settings."""

from __future__ import annotations

from collections.abc import Mapping

from trainfit.launch.accelerate.keys import SECTIONS
from trainfit.launch.draft import Draft
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.command_line import named, sent, settings_in

MARKS = ("distributed_type", "compute_environment")
"""Keys that a config of accelerate has and no other file."""
BY_DEFAULT = "default_config.yaml"
"""What accelerate reads where no other is named."""


def by_flag(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """The keys of a config by the names of the launcher's flags, as accelerate takes them over."""
    found: dict[str, Setting] = {}
    for key, setting in settings.items():
        section, _, inner = key.partition(".")
        prefix = SECTIONS.get(section) if inner else None
        if prefix is None:
            found[key] = setting
        else:
            found[inner if inner.startswith(prefix) else prefix + inner] = setting
    return found


def launched(program: TrainingProgram, draft: Draft) -> dict[str, Setting]:
    """What accelerate launch is given: its flags over the config that they name."""
    if program.launcher != "accelerate":
        return {}
    flags = {name.replace("-", "_"): each for name, each in program.launcher_settings.items()}
    file = flags.pop("config_file", None)
    if file is None and (usual := program.file(BY_DEFAULT)) is not None:
        file = Setting("config_file", usual.path, usual.path, 1)
    if file is None:
        return _but_counted(program, flags)
    file = named(program, file)
    draft.recognise(file)
    config = by_flag(settings_in(sent(program, file)))
    for name in config.keys() & flags.keys():
        draft.ignore(config[name])
    return _but_counted(program, config | flags)


def _but_counted(program: TrainingProgram, settings: dict[str, Setting]) -> dict[str, Setting]:
    """The settings without the number of processes, where the program has it already."""
    given = settings.get("num_processes")
    if program.num_gpus and given is not None and given.file == program.num_gpus[0].file:
        settings.pop("num_processes")
    return settings

"""Which launches are runs of transformers, of accelerate or of DeepSpeed, and how each is read.

All three are read alike: a run has its arguments, and accelerate's and DeepSpeed's configs.
"""

from __future__ import annotations

from trainfit.launch.accelerate.config import MARKS as ACCELERATES
from trainfit.launch.deepspeed.zero import is_config
from trainfit.launch.draft import Draft
from trainfit.launch.errors import LaunchError
from trainfit.launch.models import is_model_config
from trainfit.launch.program import TrainingProgram
from trainfit.launch.transformers.arctic import as_command, is_arctic
from trainfit.launch.transformers.command_line import DOCUMENTS, flags_of, keys_of
from trainfit.launch.transformers.reading import read_run
from trainfit.launch.transformers.releases import named_releases
from trainfit.launch.transformers.scripts import is_script

TRAINERS = (
    "per_device_train_batch_size",
    "per_gpu_train_batch_size",
    "model_name_or_path",
    "gradient_checkpointing",
    "output_dir",
    "tuner_type",
)
"""Keys of which every run of Trainer has one."""

TRL = "trl"
SERVING = ("chat", "env", "skills", "vllm-serve")
"""Commands of TRL's that do not train."""


def is_transformers(program: TrainingProgram) -> bool:
    """A program that is given Trainer's arguments, or a file of them, or a script that is known."""
    given = flags_of_program(program)
    if given.intersection(TRAINERS) or is_script(program, given) or is_arctic(program):
        return True
    return any(mark in keys for keys in files_of(program) for mark in TRAINERS)


def is_accelerate(program: TrainingProgram) -> bool:
    """A program that accelerate launches, or a config of accelerate alone."""
    if program.launcher == "accelerate":
        return True
    return program.name is None and any(
        mark in keys for keys in files_of(program) for mark in ACCELERATES
    )


def is_deepspeed(program: TrainingProgram) -> bool:
    """A program that is given a config of DeepSpeed, or such a config alone."""
    named = flags_of_program(program).intersection(("deepspeed", "deepspeed_config"))
    return bool(named) or any(is_config(keys) for keys in files_of(program))


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Read a run. A version without a name is that of transformers."""
    read_run(as_command(program), draft, named_releases(version))


def flags_of_program(program: TrainingProgram) -> set[str]:
    """The names of the flags that a program is given."""
    return {flag.name for flag in flags_of(program.arguments)[0]}


def files_of(program: TrainingProgram) -> list[dict[str, object]]:
    """The keys of the files that were sent, of those that are files of keys and no model's; none
    where the program is a tool that may lie beside the one that they are for: grep, rm, tee.
    """
    if not _may_train(program):
        return []
    found = []
    for path, file in program.files.items():
        if path.endswith(DOCUMENTS):
            try:
                keys = keys_of(file).value
            except LaunchError:
                continue
            if not is_model_config(path, keys):
                found.append(keys)
    return found


def _may_train(program: TrainingProgram) -> bool:
    if program.name == TRL:
        return not (program.arguments and program.arguments[0].text in SERVING)
    return program.name is None or program.launcher is not None or program.is_python

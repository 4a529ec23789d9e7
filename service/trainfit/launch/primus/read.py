"""An experiment of Primus -> a draft of a job, by its backend's own reader."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from math import prod

from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.megatron.programs import read_machine
from trainfit.launch.primus.experiment import (
    CLI,
    SCRIPTS,
    experiment_of,
    is_experiment,
    is_program,
    name_of,
    words_of,
)
from trainfit.launch.primus.megatron import read_megatron
from trainfit.launch.primus.presets import preset
from trainfit.launch.primus.torchtitan import read_torchtitan
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.values import size

BACKENDS = ("megatron", "torchtitan")
NUM_GPUS = "/parallelism/num_gpus"
BESIDE = ("work_group", "user_name", "exp_name", "workspace", "platform", "name")
"""Keys of an experiment beside its modules, which do not change memory."""
COUNTS = {"NNODES": 1, "GPUS_PER_NODE": 8}
"""Variables that say how many GPUs Primus starts, and what it takes without."""
OPTIONS = {
    "-N": "NNODES",
    "--nodes": "NNODES",
    "--gpus-per-node": "GPUS_PER_NODE",
    "--nproc_per_node": "GPUS_PER_NODE",
}
"""Options of primus-cli, of which those of Slurm are handed on to it, that say the same."""


def recognises(program: TrainingProgram) -> bool:
    """By a script of Primus, or an experiment's trainer among its modules."""
    if program.name is not None:
        return is_program(program)
    return any(is_experiment(file) for file in program.files.values())


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Put an experiment into a draft, as a release of Primus takes it. Raises LaunchError."""
    experiment = experiment_of(program)
    framework = experiment.framework
    if framework.value not in BACKENDS:
        message = f"of Primus's backends {' and '.join(BACKENDS)} are read, not {framework.value}"
        raise LaunchError(Complaint.at(framework, message))
    chosen = preset(experiment, version, draft)
    for setting in (framework, experiment.module, experiment.model):
        draft.recognise(setting)
    for setting in experiment.others:
        if setting.key.startswith(BESIDE) or setting.key.endswith(".trainer_class"):
            draft.ignore(setting)
        else:
            draft.leave_out(setting, "what Primus does with this key is not known")
    settings = {**chosen.settings, **experiment.overrides}
    draft.let_count(settings, experiment.over.items())
    _count(program, draft)
    if framework.value == "megatron":
        read_megatron(settings, draft)
        read_machine(program, draft)
    else:
        read_torchtitan(program, settings, draft, chosen.release.torchtitan)


def _count(program: TrainingProgram, draft: Draft) -> None:
    """The GPUs that Primus starts, where no launcher around it says how many."""
    name = name_of(program)
    if program.num_gpus or name not in (*SCRIPTS, CLI):
        return
    sizes = {
        each: program.environment.get(each) or Setting(each, usual, name, None, whose="Primus")
        for each, usual in COUNTS.items()
    }
    for option, setting in _before_command(program):
        if option in OPTIONS:
            sizes[OPTIONS[option]] = setting
        else:
            draft.ignore(setting)
    if any(each.unknown is not None for each in sizes.values()):
        draft.put(NUM_GPUS, None, *sizes.values())
        return
    try:
        draft.put(NUM_GPUS, prod(size(each.value) for each in sizes.values()), *sizes.values())
    except ValueError as error:
        draft.complain(sizes["NNODES"], str(error))


def _before_command(program: TrainingProgram) -> Iterator[tuple[str, Setting]]:
    """The options of primus-cli, which stand before its command."""
    own = program.arguments[: len(program.arguments) - len(words_of(program))]
    for word, after in zip_longest(own, own[1:]):
        name, equals, inline = word.text.partition("=")
        if name.startswith("-") and name.strip("-"):
            setting = Setting(name, inline, word.file, word.line, word.unknown)
            yield name, setting if equals or after is None else Setting.of(name, after)

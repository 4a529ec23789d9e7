"""Programs that take Megatron-LM's arguments."""

from __future__ import annotations

from math import prod

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.megatron.arguments import read_arguments
from trainfit.launch.megatron.command_line import read_words
from trainfit.launch.megatron.deepspeed import (
    bound_logged,
    engine_of,
    of_deepspeed,
    put_engine,
    read_experts,
)
from trainfit.launch.megatron.environment import read_environment
from trainfit.launch.megatron.forks import put_expert_ranks
from trainfit.launch.megatron.options import (
    Defaults,
    MegatronParser,
    UnknownReleaseError,
    release_of,
)
from trainfit.launch.megatron.slime import bound_logits, is_slime, put_actor, with_defaults
from trainfit.launch.megatron.stacks import MEGATRON_DEEPSPEED, put_stack
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.command_line import named

HYBRID = frozenset(["pretrain_mamba.py", "pretrain_hybrid.py"])
MCORE_ONLY = HYBRID | {"pretrain_gpt_core.py"}
"""Programs that never had other layers than those of megatron-core."""
PROGRAMS = MCORE_ONLY | {"pretrain_gpt.py"}
TOKENIZER = "GPT2BPETokenizer"
"""Of these programs where none is named (args_defaults in pretrain_gpt.py)."""
REFUSED = {
    "pretrain_bert.py": "a model that reads both ways",
    "pretrain_ict.py": "two encoders",
    "pretrain_retro.py": "a decoder with retrieval",
    "pretrain_t5.py": "an encoder and a decoder",
    "pretrain_vision_classify.py": "a vision model",
    "pretrain_vision_dino.py": "a vision model",
    "pretrain_vision_inpaint.py": "a vision model",
    "pretrain_vlm.py": "a vision model beside a decoder",
    "train_rl.py": "a policy with rollouts",
}
"""Programs with Megatron-LM's arguments that train what is not modelled."""
FILES = frozenset(["deepspeed_config"])
"""Arguments that name a file."""
MARKS = ("--hidden-size", "--num-attention-heads")
"""What a command line of Megatron-LM's has, whatever its program is called."""


def recognises(program: TrainingProgram) -> bool:
    """By its name, or by its arguments."""
    name = _file_name(program)
    if name in PROGRAMS or name in REFUSED:
        return True
    given = {word.text.partition("=")[0] for word in program.arguments}
    return "--yaml-cfg" not in given and (all(mark in given for mark in MARKS) or is_slime(program))


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Put a Megatron-LM command line into a draft. Raises LaunchError."""
    parser = parser_of(version)
    refuse_other_models(program)
    arguments = read_words(program.arguments, parser, draft)
    slime = is_slime(program)
    if slime:
        with_defaults(arguments)
    settings = dict(arguments.settings)
    if of_deepspeed(settings) and arguments.values.get("num_experts") == 1:
        draft.ignore(settings.pop("num_experts"))
    for key in FILES & settings.keys():
        settings[key] = named(program, settings[key])
    reading = Reading(settings, draft, arguments.values)
    if _file_name(program) not in MCORE_ONLY:
        _leave_out_legacy_model(reading, parser.defaults(), program)
    engine = engine_of(program, reading)
    read_experts(reading)
    if slime:
        put_actor(reading)
    name = _file_name(program)
    tokenizer = TOKENIZER if name in PROGRAMS else None
    read_arguments(reading, parser.defaults(), hybrid=name in HYBRID, tokenizer=tokenizer)
    if engine is not None:
        put_engine(draft, engine)
        put_stack(draft, MEGATRON_DEEPSPEED, "Megatron-DeepSpeed")
    if slime:
        bound_logits(reading)
    read_machine(program, draft)
    bound_logged(reading)
    put_expert_ranks(reading)


def _leave_out_legacy_model(reading: Reading, defaults: Defaults, program: TrainingProgram) -> None:
    """Before core_v0.8.0 a program had the layers of megatron-core only where it was asked to."""
    if not defaults.before("core_v0.8.0") or reading.get("deprecated_use_mcore_models"):
        return
    file = program.arguments[0].file if program.arguments else "argv"
    why = f"without it {defaults.name} trains its own layers, which are not modelled"
    reading.draft.leave_out(Setting("--use-mcore-models", False, file, None), why)


def parser_of(version: str | None) -> MegatronParser:
    """The parser of a release. Raises LaunchError."""
    try:
        return MegatronParser(release_of(version))
    except UnknownReleaseError as error:
        raise LaunchError(Complaint(f"framework_version: {error}")) from None


def refuse_other_models(program: TrainingProgram) -> None:
    """Raise LaunchError for a program that trains what is not modelled."""
    name = _file_name(program)
    if name in REFUSED:
        raise LaunchError(Complaint(f"{name} trains {REFUSED[name]}, which is not modelled"))


def read_machine(program: TrainingProgram, draft: Draft) -> None:
    """How many GPUs there are, and what their environment decides."""
    read_environment(program.environment, draft)
    pointer = "/parallelism/num_gpus"
    world = program.environment.get("WORLD_SIZE")
    settings = program.num_gpus or (() if world is None else (world,))
    try:
        if any(each.unknown is not None for each in settings):
            draft.put(pointer, None, *settings)
        elif settings:
            draft.put(pointer, prod(int(each.value) for each in settings), *settings)
    except ValueError:
        draft.complain(settings[0], f"must be a number of GPUs, not {settings[0].value!r}")
    draft.require(
        pointer,
        f"the number of GPUs is not in what was sent; give {pointer} in overrides",
    )


def _file_name(program: TrainingProgram) -> str:
    return (program.name or "").rpartition("/")[2]

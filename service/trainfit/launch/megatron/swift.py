"""`megatron sft`, `pt` and `rlhf` of ms-swift: Megatron-LM's arguments under their names in its
namespace, over a model of the Hub.

Source: modelscope/ms-swift swift/megatron/arguments/megatron_args.py and megatron_base_args.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.keys import table_of
from trainfit.launch.megatron.arguments import read_arguments
from trainfit.launch.megatron.configs import Field, reading_of
from trainfit.launch.megatron.options import MegatronParser, Option, releases
from trainfit.launch.megatron.programs import read_machine
from trainfit.launch.megatron.swift_adapters import ARGUMENTS as ADAPTING
from trainfit.launch.megatron.swift_adapters import put_adapters
from trainfit.launch.megatron.swift_preferences import TYPE, bound_received, put_objective
from trainfit.launch.models import config_of, has_tower, named_by_its_end, put_model
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.command_line import arguments_of
from trainfit.launch.transformers.source import as_bool
from trainfit.launch.transformers.towers import FROZEN, TOLD_APART

WHOSE = "ms-swift"
COMMANDS = ("sft", "pt", "rlhf")
DEFAULTS: Mapping[str, Any] = {
    "micro_batch_size": 1,
    "global_batch_size": 16,
    "recompute_granularity": "selective",
    "attention_backend": "flash",
    "use_distributed_optimizer": True,
    "moe_grouped_gemm": True,
    "moe_token_dispatcher_type": "alltoall",
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "expert_tensor_parallel_size": 1,
}
"""What Megatron-LM has otherwise; the dropout is that of the models of the Hub."""
HALVES = {"bfloat16": "bf16", "float16": "fp16"}
LENGTHS = ("packing_length", "max_length", "seq_length")
"""How long a sample is, the one that counts first."""
FUSED, DEPTHS = "cross_entropy_loss_fusion", "mtp_num_layers"
MODEL_BY = "mcore-bridge, whose parser of config.json sets no depths of multi-token prediction"
PARTS = {
    "freeze_vit": "vision_tower",
    "freeze_aligner": "multi_modal_projector",
    "freeze_llm": "language_model",
}
"""What switches freeze; the first two are on where nothing says otherwise."""
OF_TOWERS = ("freeze_vit", "freeze_aligner")
RECOMPUTES_TOWER = "vit_gradient_checkpointing"
IMPLEMENTATION, RECOMPUTE = "/framework/tower_impl", "/framework/recompute_tower"
TUNERS = ("tuner_type", "train_type")


def recognises(program: TrainingProgram) -> bool:
    """By the tool and its command."""
    first = program.arguments[0].text if program.arguments else ""
    return program.name == "megatron" and first in COMMANDS


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Put a command into a draft; what differs between releases of ms-swift is bounded."""
    draft.ignore_version(version)
    given = arguments_of(program, draft)
    if (model := given.pop("model", None)) is not None:
        put_model(draft, program, named_by_its_end(model))
    draft.require("/model", "names no model; give --model, or /model in overrides")
    if (format_ := given.pop("fp8_format", None)) is not None:
        given["fp8"] = format_
    tuner = _put_frozen(given, draft, model)
    learns = next(
        (
            given.setdefault(TYPE, Setting.of(TYPE, command))
            for command in program.arguments[:1]
            if command.text == "rlhf"
        ),
        None,
    )
    if learns is not None:
        put_objective(given, draft, DEFAULTS, adapts=tuner is not None)
    learnt = draft.get("/training/loss/objective")
    if learnt == "policy" and (idle := given.pop(FUSED, None)) is not None:
        draft.ignore(idle)
    given_names = set(given)
    adapting = {name: given.pop(name) for name in ADAPTING if name in given} if tuner else {}
    fields = [*_own(given, draft), *_fields(given, draft)]
    for name, value in DEFAULTS.items():
        if name not in given_names:
            fields.append(Field(name, Setting(name, value, WHOSE, None, whose=WHOSE), value))
    if FUSED not in given_names and learnt != "policy":
        draft.leave_out(Setting(FUSED, None, WHOSE, None), BY_RELEASE)
    if DEPTHS not in given_names:
        draft.default("/training/mtp", {"num_layers": 0}, MODEL_BY)
    read_arguments(reading_of(fields, draft), MegatronParser(None).defaults())
    if learns is not None and learnt == "preference":
        bound_received(draft, replace(learns, key=f"{TYPE} with pipeline stages"))
    if tuner is not None:
        put_adapters(adapting, draft, tuner, WHOSE)
    read_machine(_counted(program), draft)


BY_RELEASE = Effect(
    "newer releases fuse the loss where nothing says so, older ones do not",
    "lowers",
    "modelscope/ms-swift swift/megatron/arguments/megatron_args.py",
    within={"/training/loss/cross_entropy": "native_fused"},
)
ADAPTERS = Effect(
    "adapters beside a tower that is trained are priced as full training",
    "lowers",
    "modelscope/ms-swift swift/megatron/arguments/megatron_args.py (MegatronTunerMixin)",
)


def _put_frozen(given: dict[str, Setting], draft: Draft, model: Setting | None) -> Setting | None:
    """What says that LoRA is trained, beside which all is frozen; weights that are frozen have no
    gradients and no states. Without adapters a tower and its projector are, unless told otherwise.
    """
    config = config_of(draft) or {}
    tuner = _tuner(given, draft)
    if has_tower(config):
        frozen = _put_tower(given, draft, adapts=tuner is not None)
        if tuner is None and model is not None:
            _put_parts(frozen, draft, str(config.get("model_type")))
    for name in (*OF_TOWERS, RECOMPUTES_TOWER):
        if name in given:
            draft.ignore(given.pop(name))
    if tuner is not None and tuner.value != "lora":
        draft.leave_out(tuner, ADAPTERS)
        return None
    return tuner


def _put_tower(
    given: dict[str, Setting], draft: Draft, *, adapts: bool
) -> dict[str, Setting | None]:
    """Parts of a model that sees or hears that are frozen, with what says so. Its tower is
    transformers' own, whose layers are recomputed where it is trained.
    """
    frozen: dict[str, Setting | None] = {}
    for name, part in PARTS.items():
        setting = given.pop(name, None)
        if name in OF_TOWERS if setting is None else as_bool(setting.value):
            frozen[part] = setting
        elif setting is not None and adapts and name in OF_TOWERS:
            draft.leave_out(setting, "adapters of a tower are not modelled")
            adapts = False
        if setting is not None:
            draft.recognise(setting)
    again = given.pop(RECOMPUTES_TOWER, None)
    draft.default(IMPLEMENTATION, "transformers", WHOSE)
    if again is not None:
        draft.put(RECOMPUTE, as_bool(again.value), again)
    elif "vision_tower" not in frozen:
        draft.default(RECOMPUTE, value=True, whose=WHOSE)
    return frozen


def _put_parts(frozen: Mapping[str, Setting | None], draft: Draft, kind: str) -> None:
    said = [setting for setting in frozen.values() if setting is not None]
    towers = frozen.keys() & {"vision_tower", "multi_modal_projector"}
    if len(towers) == 1 and kind not in TOLD_APART:
        for setting in said:
            draft.leave_out(setting, "tower and projector of this model are not told apart")
    elif said:
        draft.put(FROZEN, list(frozen), *said)
    elif frozen:
        draft.default(FROZEN, list(frozen), WHOSE)


def _tuner(given: dict[str, Setting], draft: Draft) -> Setting | None:
    """What says that less than all is trained, by its newer or its older name."""
    found = [setting for name in TUNERS if (setting := given.pop(name, None)) is not None]
    for setting in found:
        draft.recognise(setting)
    return next((each for each in found if each.unknown is None and each.value != "full"), None)


def _own(given: dict[str, Setting], draft: Draft) -> Iterator[Field]:
    """The length of a sample and the data type, which is that of the model's config.json."""
    lengths = [setting for name in LENGTHS if (setting := given.pop(name, None)) is not None]
    for setting in lengths[:1]:
        yield Field("seq_length", setting, _typed(_option("seq_length"), setting.value))
    for setting in lengths[1:]:
        draft.recognise(setting)
    dtype = given.pop("torch_dtype", None)
    config = config_of(draft) or {}
    declared = config.get("dtype") or config.get("torch_dtype") or "bfloat16"
    name = HALVES.get(str(dtype.value if dtype is not None else declared))
    if name is not None and "bf16" not in given and "fp16" not in given:
        whose = f"{WHOSE}, by the config.json of the model"
        yield Field(name, dtype or Setting(name, True, WHOSE, None, whose=whose), True)
    elif dtype is not None:
        draft.recognise(dtype)


def _fields(given: Mapping[str, Setting], draft: Draft) -> Iterator[Field]:
    """Arguments that are Megatron-LM's, and what is known of the others."""
    own = table_of(__package__, "swift")
    for name, setting in given.items():
        option = _option(name)
        if name in own.rows or option is None:
            effect = own.effect_of(name, setting.value)
            if effect is None:
                draft.ignore(setting)
            else:
                draft.leave_out(setting, effect)
        elif name == "recompute_granularity" and setting.value == "none":
            draft.recognise(setting)
        else:
            yield Field(name, setting, _typed(option, setting.value))


def _option(name: str) -> Option | None:
    """The latest shape of the option that sets this name."""
    shapes = [
        each for options in releases().options.values() for each in options if each.dest == name
    ]
    return max(shapes, key=lambda option: option.until, default=None)


def _typed(option: Option | None, value: Any) -> Any:
    """A value as the option's type has it; a switch is written true or false here."""
    if option is None or not isinstance(value, str):
        return value
    if option.takes == 0:
        switch = as_bool(value)
        return value if switch is None else switch
    try:
        return {"int": int, "float": float}.get(option.type, str)(value)
    except ValueError:
        return value


def _counted(program: TrainingProgram) -> TrainingProgram:
    """The program with what its environment says of the number of GPUs."""
    each, nodes = (program.environment.get(name) for name in ("NPROC_PER_NODE", "NNODES"))
    if program.num_gpus or each is None:
        return program
    return replace(program, num_gpus=(each,) if nodes is None else (each, nodes))

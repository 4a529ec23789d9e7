"""Settings of a recipe of NeMo 2 -> Megatron's arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.keys import table_of
from trainfit.launch.megatron import bridge_adapters
from trainfit.launch.megatron.arguments import read_arguments
from trainfit.launch.megatron.bridge_names import DIFFERING
from trainfit.launch.megatron.configs import (
    Field,
    is_argument,
    reading_of,
    without_idle_recompute,
)
from trainfit.launch.megatron.options import Defaults, MegatronParser
from trainfit.launch.megatron.tokenizers import OF_THE_HUB
from trainfit.launch.nemo.recipes import DEVICES, NODES
from trainfit.launch.settings import Setting
from trainfit.launch.values import size

PLUGIN = "trainer.plugins."
SECTIONS = ("model.config.", "trainer.strategy.ddp.", "trainer.strategy.", "optim.config.", PLUGIN)
"""Whose fields are those of Megatron's dataclasses."""
RENAMED = {
    "expert_tensor_model_parallel_size": "expert_tensor_parallel_size",
    "fp8_params": "fp8_param_gather",
}
DATA = {
    "data.micro_batch_size": "micro_batch_size",
    "data.global_batch_size": "global_batch_size",
    "data.seq_length": "seq_length",
    "data.packed_sequence_specs.packed_sequence_size": "seq_length",
}
PRECISIONS: Mapping[str, str] = {
    "bf16-mixed": "bf16",
    "bf16": "bf16",
    "16-mixed": "fp16",
    "16": "fp16",
    "fp16-mixed": "fp16",
}
ACTIVATION = ("activation_func", "gated_linear_unit")
"""Fields that say together which arguments they are."""
OF_PLUGIN = (
    "first_last_layers_bf16",
    "grad_reduce_in_fp32",
    "num_layers_at_end_in_bf16",
    "num_layers_at_start_in_bf16",
    "reuse_grad_buf_for_mxfp8_param_ag",
)
CALLBACKS = "trainer.callbacks."
OVERLAP = f"{CALLBACKS}MegatronCommOverlapCallback."
OVERLAPS: Mapping[str, Any] = {
    "overlap_grad_reduce": True,
    "overlap_param_gather": True,
    "ddp_bucket_size": 128 * 2**20,
}
"""What the callback switches on beside the distributed optimizer."""
SWITCHED: Mapping[str, Mapping[str, Any]] = {
    f"{CALLBACKS}MegatronTokenDropCallback._": {
        "moe_expert_capacity_factor": 1.0,
        "moe_pad_expert_input_to_capacity": True,
    },
    f"{CALLBACKS}DeepEPCallback._": {
        "moe_token_dispatcher_type": "flex",
        "moe_enable_deepep": True,
        "moe_shared_expert_overlap": False,
    },
}
"""A callback -> the fields that it sets."""
MOCK, MOCK_TOKENIZER = "MockDataModule", "GPT2BPETokenizer"
"""Data that is made up has this tokenizer, where none is given (gpt/data/mock.py)."""
BASE = "resume.restore_config.path"
VOCABULARY = "model.config.vocab_size"
NULL_TOKENIZER = "data.tokenizer.vocab_size"
TOKENIZERS = ("tokenizer", "data.tokenizer", "model.tokenizer")
PEFT = f"{bridge_adapters.SECTION}._"


def read_fields(settings: Mapping[str, Setting], draft: Draft) -> None:
    """Put the settings of a recipe, with what is said over it, into a draft."""
    _count(settings, draft)
    settings = _without_adapters(settings, draft)
    fields = list(without_idle_recompute(_fields(settings, draft), draft))
    nothing = {each.name: None for each in fields if each.value == "none"}
    fields = [each for each in fields if each.name not in nothing]
    values = {**MegatronParser(None).defaults().values, **DIFFERING, **nothing}
    read_arguments(reading_of(fields, draft), Defaults("NeMo", values, None))


def _count(settings: Mapping[str, Setting], draft: Draft) -> None:
    counts = [settings[key] for key in (DEVICES, NODES) if key in settings]
    pointer = "/parallelism/num_gpus"
    if len(counts) < 2:
        message = f"{DEVICES} and {NODES} do not both say a number; give {pointer} in overrides"
        draft.require(pointer, message)
        return
    try:
        known = all(each.unknown is None for each in counts)
        draft.put(pointer, prod(size(each.value) for each in counts) if known else None, *counts)
    except ValueError as error:
        draft.complain(counts[0], f"with num_nodes, {error}")


def _fields(settings: Mapping[str, Setting], draft: Draft) -> Iterator[Field]:
    said = {key: each.value for key, each in settings.items()}
    last: list[Field] = []
    for key, setting in settings.items():
        section = next((each for each in SECTIONS if key.startswith(each)), "")
        name = RENAMED.get(key.removeprefix(section), key.removeprefix(section))
        if key in (DEVICES, NODES, NULL_TOKENIZER):
            continue
        if key in DATA and setting.value is not None:
            yield Field(DATA[key], setting, setting.value)
        elif key.startswith(CALLBACKS) and (sets := SWITCHED.get(key)):
            last += [Field(field, setting, value) for field, value in sets.items()]
        elif key.startswith(OVERLAP) and setting.value is not None:
            last += _overlap(key.removeprefix(OVERLAP), setting, said)
        elif key == "trainer.plugins.precision":
            last += _precision(setting, draft)
        elif key == "trainer.strategy.fsdp" and setting.value == "megatron":
            yield Field("use_megatron_fsdp", setting, True)
        elif key == VOCABULARY and setting.value is not None:
            yield Field("padded_vocab_size", setting, setting.value)
        elif key == "model.config.seq_length" and setting.value is not None:
            yield Field("max_position_embeddings", setting, setting.value)
        elif (effect := _effect(key, section, name, setting)) is None:
            draft.ignore(setting)
        elif section == PLUGIN and is_argument(name):
            last.append(Field(name, setting, setting.value))
        elif section and (is_argument(name) or name in ACTIVATION):
            yield Field(name, setting, setting.value)
        else:
            draft.leave_out(setting, effect)
    yield from last
    yield from _tokenizer(settings)


def _effect(key: str, section: str, name: str, setting: Setting) -> Effect | None:
    """What a key does that is not read. Of precision the plugin decides, whatever else says it
    (connect of the strategy).
    """
    precise = name.startswith(("fp8", "fp4", "fp16", "bf16")) or name in OF_PLUGIN
    if section and section != PLUGIN and precise:
        return None
    return table_of(__package__).effect_of(key, setting.value)


def _overlap(name: str, setting: Setting, said: Mapping[str, Any]) -> Iterator[Field]:
    """What the callback for communication that overlaps sets; of tensor parallelism only with
    sequence parallelism.
    """
    shards = said.get("optim.config.use_distributed_optimizer") is True
    if name == "_" and shards:
        own = {key.removeprefix(OVERLAP) for key in said if key.startswith(OVERLAP)}
        for field, value in OVERLAPS.items():
            if field.removeprefix("ddp_") not in own:
                yield Field(field, setting, value)
    elif name == "tp_comm_overlap":
        tensor = said.get("trainer.strategy.tensor_model_parallel_size", 1)
        sequence = said.get("trainer.strategy.sequence_parallel")
        yield Field(name, setting, setting.value is True and tensor != 1 and sequence is True)
    elif name == "bucket_size" or is_argument(name):
        yield Field(name, setting, setting.value)


def _precision(setting: Setting, draft: Draft) -> Iterator[Field]:
    name = PRECISIONS.get(str(setting.value))
    if name is None:
        draft.leave_out(setting, "this precision is not modelled")
    else:
        yield Field(name, setting, True)


def _tokenizer(settings: Mapping[str, Setting]) -> Iterator[Field]:
    """Whose vocabulary it is, where the recipe tells: that of made up data, or of the model that
    is trained on.
    """
    size_of_none = settings.get(NULL_TOKENIZER)
    if size_of_none is not None and VOCABULARY not in settings:
        yield Field("tokenizer_type", size_of_none, "NullTokenizer")
        yield Field("vocab_size", size_of_none, size_of_none.value)
        return
    if VOCABULARY in settings or any(key.startswith(TOKENIZERS) for key in settings):
        return
    data, base = settings.get("data._"), settings.get(BASE)
    if data is not None and data.value == MOCK:
        yield Field("tokenizer_type", data, MOCK_TOKENIZER)
    elif base is not None:
        yield Field("tokenizer_type", replace(base, value=OF_THE_HUB), OF_THE_HUB)
        yield Field("tokenizer_model", base, base.value)


def _without_adapters(settings: Mapping[str, Setting], draft: Draft) -> dict[str, Setting]:
    """Settings without those of LoRA, which are read as Megatron-Bridge's; of others what they are
    is not modelled.
    """
    own = {key: each for key, each in settings.items() if key.startswith("peft")}
    left = {key: each for key, each in settings.items() if key not in own}
    kind = own.get(PEFT)
    if kind is None or kind.value in (None, "none"):
        for each in own.values():
            draft.ignore(each)
    elif kind.value != "lora":
        draft.leave_out(kind, "of adapters LoRA is modelled")
    else:
        del own[PEFT]
        bridge_adapters.put_adapters({bridge_adapters.SECTION: kind, **own}, draft)
    return left

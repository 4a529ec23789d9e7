"""verl's Megatron actor: its keys as Megatron's arguments.

Sources at b178a3c: verl/trainer/config (actor/megatron_actor.yaml, engine/megatron.yaml,
optim/megatron.yaml), workers/megatron_workers.py, workers/actor/megatron_actor.py,
utils/megatron_utils.py, and core/llm_bridge.py and core/util.py of mbridge, which build the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.megatron.arguments import read_arguments
from trainfit.launch.megatron.configs import Field, reading_of, sizes_within
from trainfit.launch.megatron.options import Defaults, MegatronParser
from trainfit.launch.settings import Setting
from trainfit.launch.values import flag
from trainfit.launch.verl.keys import ACTOR, OPTIMIZER

MEGATRON = f"{ACTOR}.megatron"
REFERENCE = "actor_rollout_ref.ref.megatron.param_offload"
OVERRIDES = (
    f"{MEGATRON}.override_transformer_config.",
    f"{MEGATRON}.override_ddp_config.",
    f"{OPTIMIZER}.override_optimizer_config.",
)
"""Sections of fields of megatron-core's own dataclasses."""
LAYOUT = (
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "virtual_pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
    "sequence_parallel",
    "use_distributed_optimizer",
)
"""Keys of the engine that are Megatron's arguments."""
RECOMPUTE = f"{OVERRIDES[0]}recompute_"

DEFAULTS: Mapping[str, Any] = {
    "attention_dropout": None,
    "create_attention_mask_in_dataloader": False,
    "hidden_dropout": 0.0,
    "moe_grouped_gemm": True,
    "moe_permute_fusion": False,
    "moe_token_dispatcher_type": "alltoall",
    "overlap_grad_reduce": False,
    "overlap_param_gather": False,
    "sequence_parallel": None,
}
"""What mbridge and megatron-core's dataclasses set, where Megatron-LM's arguments set another. Of
dropout in attention it is the config's, and sequences are parallel where tensors are."""


def is_argument(key: str) -> bool:
    """Whether this is a key that becomes an argument of Megatron's."""
    section, _, name = key.rpartition(".")
    return key.startswith(OVERRIDES) or (section == MEGATRON and name in (*LAYOUT, "dtype"))


def ranks(settings: Mapping[str, Setting]) -> tuple[int, int]:
    """Context-parallel ranks, and all ranks that share one replica of the model."""
    sizes = sizes_within(settings, MEGATRON)
    return sizes["context_parallel_size"], prod(sizes.values())


def read_engine(settings: Mapping[str, Setting], chosen: Setting, draft: Draft, whose: str) -> None:
    """Put the actor's arguments into a draft. `chosen` is the setting that chooses Megatron."""
    draft.default("/framework/make_vocab_size_divisible_by", 1, whose)
    draft.default("/framework/gradient_accumulation_fusion", False, whose)
    draft.default("/training/mtp", {"num_layers": 0}, whose)
    defaults = Defaults(whose, {**MegatronParser(None).defaults().values, **DEFAULTS}, None)
    read_arguments(reading_of(_fields(settings, chosen), draft), defaults)


def _fields(settings: Mapping[str, Setting], chosen: Setting) -> Iterator[Field]:
    """bf16 with a distributed optimizer and FlashAttention, unless told otherwise. Modules are
    recomputed where the granularity is selective only.
    """
    yield Field("bf16", chosen, True)
    yield Field("accumulate_allreduce_grads_in_fp32", chosen, True)
    yield Field("use_distributed_optimizer", chosen, True)
    yield Field("attention_backend", chosen, "flash")
    granularity = settings.get(f"{RECOMPUTE}granularity")
    for key, setting in settings.items():
        name = key.rpartition(".")[2]
        if key == f"{MEGATRON}.dtype":
            yield from _dtype(setting)
        elif key == f"{RECOMPUTE}modules":
            selective = granularity is not None and granularity.value == "selective"
            yield Field(name, setting, setting.value if selective else None)
        else:
            yield Field(name, setting, setting.value)


def _dtype(setting: Setting) -> Iterator[Field]:
    """float16 comes with an optimizer that reads gradients as they are."""
    half = str(setting.value) in ("float16", "fp16")
    yield Field("bf16", setting, not half)
    if half:
        yield Field("fp16", setting, True)
        yield Field("use_precision_aware_optimizer", setting, True)


def keep_reference(reading: Reading, draft: Draft) -> None:
    """The reference model stays on the card unless it is told to wait in host memory."""
    needed = [
        setting
        for key in (f"{ACTOR}.use_kl_loss", "algorithm.use_kl_in_reward")
        if (setting := reading.get(key)) is not None and reading.value(key, False, flag)
    ]
    offloaded = reading.value(REFERENCE, None, flag)
    if offloaded is None:
        offloaded = reading.value(f"{MEGATRON}.param_offload", False, flag)
    if needed and not offloaded:
        draft.put("/training/loss/reference", "copy", *needed)

"""Arguments of Megatron-LM as Primus has them, and its own beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.keys import table_of, words
from trainfit.launch.megatron import bridge_adapters
from trainfit.launch.megatron.arguments import read_arguments
from trainfit.launch.megatron.configs import (
    Field,
    is_argument,
    reading_of,
    without_idle_recompute,
)
from trainfit.launch.megatron.options import Defaults, MegatronParser
from trainfit.launch.megatron.tokenizers import OF_THE_HUB
from trainfit.launch.settings import Setting

TOKENIZERS = words(
    "DeepSeekV2Tokenizer DeepSeekV3Tokenizer DeepSeekV4Tokenizer KimiK2Tokenizer Lfm2Tokenizer "
    "Llama2Tokenizer Llama3Tokenizer Llama4Tokenizer MixtralTokenizer"
)
"""Kinds of tokenizers that Primus makes of what is on the Hub (training/tokenizer)."""
TURBO = "enable_primus_turbo"
DEEP_EP: Mapping[str, Any] = {"moe_token_dispatcher_type": "flex", "moe_enable_deepep": True}
"""What takes the place of the dispatcher (patches/turbo/moe_dispatcher_patches.py)."""
DEEP_EP_SWITCH, SYNC_FREE = "use_turbo_deepep", "turbo_sync_free_moe_stage"
SYNC_FREE_BY_DEEP_EP = (2, 3)
LOW_PRECISION = ("fp8", "fp4")
QUANTISED = (
    "use_turbo_gemm",
    "use_turbo_grouped_gemm",
    "use_turbo_norm_te_linear",
    "use_turbo_fused_act_with_probs",
)
ATTENTION = "use_turbo_attention"
LORA = "lora."
ACTIVATION = "activation_func"


def read_megatron(settings: Mapping[str, Setting], draft: Draft) -> None:
    """Put what an experiment says together into a draft."""
    settings = _without_adapters(settings, draft)
    defaults = MegatronParser(None).defaults()
    primus = Defaults("Megatron-LM", defaults.values, defaults.release)
    fields = list(without_idle_recompute(_fields(settings, draft), draft))
    read_arguments(reading_of(fields, draft), primus)


def _fields(settings: Mapping[str, Setting], draft: Draft) -> Iterator[Field]:
    """Arguments of Megatron-LM as they are; what Primus puts in their place comes last."""
    said = {key: each.value for key, each in settings.items()}
    turbo = said.get(TURBO) is True
    dispatcher = _dispatcher(settings) if turbo else None
    keys = table_of(__package__, "megatron")
    for key, setting in settings.items():
        if key == "tokenizer_type" and setting.value in TOKENIZERS:
            yield Field(key, setting, OF_THE_HUB)
        elif key == "sequence_parallel" and said.get("tensor_model_parallel_size", 1) == 1:
            draft.ignore(setting)
        elif key != ACTIVATION and is_argument(key):
            yield Field(key, setting, setting.value)
        elif turbo and setting.value and (why := _not_as_megatron(key, said)):
            draft.leave_out(setting, why)
        elif setting is not dispatcher or key == SYNC_FREE:
            idle = key.startswith("use_turbo_") and not turbo
            _put_aside(setting, None if idle else keys.effect_of(key, setting.value), draft)
    if dispatcher is not None:
        for name, value in DEEP_EP.items():
            yield Field(name, dispatcher, value)


def _dispatcher(settings: Mapping[str, Setting]) -> Setting | None:
    """What asks for Primus-Turbo's DeepEP, if anything does (rocm_arg_validation.py)."""
    switch, stage = settings.get(DEEP_EP_SWITCH), settings.get(SYNC_FREE)
    if switch is not None and switch.value is True:
        return switch
    of_itself = stage is not None and stage.value in SYNC_FREE_BY_DEEP_EP
    return stage if of_itself else None


def _put_aside(setting: Setting, effect: Effect | None, draft: Draft) -> None:
    if effect is None:
        draft.ignore(setting)
    else:
        draft.leave_out(setting, effect)


def _not_as_megatron(key: str, said: Mapping[str, Any]) -> str | None:
    """Why a kernel of Primus-Turbo keeps something else than Megatron-LM's here."""
    if key in QUANTISED and any(said.get(each) for each in LOW_PRECISION):
        return "what this kernel keeps in fp8 or fp4 is not modelled"
    if key == ATTENTION and said.get("context_parallel_size", 1) not in (1, None):
        return "this attention under context parallelism is not modelled"
    return None


def _without_adapters(settings: Mapping[str, Setting], draft: Draft) -> dict[str, Setting]:
    """Settings without those of LoRA, which are read as Megatron-Bridge's."""
    own = {key: each for key, each in settings.items() if key.startswith(LORA)}
    left = {key: each for key, each in settings.items() if key not in own}
    switch = own.pop(f"{LORA}enabled", None)
    if switch is None or switch.value is not True:
        for each in (*own.values(), *(() if switch is None else (switch,))):
            draft.ignore(each)
        return left
    section = bridge_adapters.SECTION
    adapters = {section: replace(switch, value="lora")}
    adapters |= {key.replace("lora", section, 1): each for key, each in own.items()}
    bridge_adapters.put_adapters(adapters, draft)
    return left

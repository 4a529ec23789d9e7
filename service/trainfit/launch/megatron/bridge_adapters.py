"""Low-rank adapters, as a ConfigContainer of Megatron-Bridge says them in its section peft.

Source: Megatron-Bridge's src/megatron/bridge/peft (lora.py, module_matcher.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.megatron.serialised import TARGET
from trainfit.launch.settings import Setting
from trainfit.resolve.megatron.adapters import LINEARS

SECTION = "peft"
DEFAULTS: Mapping[str, Any] = {
    "dim": 32,
    "dropout": 0.0,
    "target_modules": ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"],
}
FIELDS = {"dim": "r", "dropout": "dropout", "target_modules": "target_modules"}
WITHOUT_EFFECT = frozenset(
    {"alpha", "dropout_position", "lora_A_init_method", "lora_B_init_method", TARGET}
)
WHOLE_MODEL = Effect(
    "adapters of layers by their place are priced as full training",
    "lowers",
    "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/peft/module_matcher.py",
)
REGATHERED = Effect(
    "inputs that adapters gather again in backward are priced as kept",
    "lowers",
    "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/peft/lora.py",
)
UNKNOWN = "this option of adapters is not modelled"


def adapts(settings: Mapping[str, Setting]) -> bool:
    """Whether the section is of LoRA, which is read."""
    said = settings.get(f"{SECTION}.{TARGET}") or settings.get(SECTION)
    return said is not None and str(said.value).rpartition(".")[2].casefold() == "lora"


def put_adapters(settings: Mapping[str, Setting], draft: Draft) -> None:
    """LoRA's fields; whose targets are more than names of linears, priced as full training."""
    named = settings.get(f"{SECTION}.{TARGET}") or settings[SECTION]
    own = {
        key.removeprefix(f"{SECTION}."): setting
        for key, setting in settings.items()
        if key.startswith(f"{SECTION}.")
    }
    if (targets := own.get("target_modules")) is not None and not _are_linears(targets):
        draft.leave_out(targets, WHOLE_MODEL)
        for setting in {**settings, **own}.values():
            if setting.key.partition(".")[0] == SECTION and setting is not targets:
                draft.recognise(setting)
        return
    draft.put("/training/peft/method", "lora", named)
    for name, field in FIELDS.items():
        if name in own:
            draft.put(f"/training/peft/{field}", own[name].value, own[name])
        else:
            draft.default(f"/training/peft/{field}", DEFAULTS[name], "Megatron-Bridge")
    for name, setting in own.items():
        if name not in FIELDS:
            _put_aside(name, setting, draft)


def _are_linears(targets: Setting) -> bool:
    if targets.unknown is not None:
        return True
    return isinstance(targets.value, list) and set(targets.value) <= set(LINEARS)


def _put_aside(name: str, setting: Setting, draft: Draft) -> None:
    """What changes nothing, or is not set; else what it does is not modelled."""
    shared = name == "share_expert_adapters" and setting.value is True
    if name in WITHOUT_EFFECT or shared or setting.value in (None, False, []):
        draft.ignore(setting)
    elif name == "sequence_parallel_input_regather":
        draft.leave_out(setting, REGATHERED)
    else:
        draft.leave_out(setting, UNKNOWN)

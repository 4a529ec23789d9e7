"""Low-rank adapters, as ms-swift's arguments say them.

Sources: modelscope/ms-swift swift/megatron/arguments/megatron_args.py (MegatronTunerMixin) and
megatron/utils/utils.py (prepare_adapter); modelscope/mcore-bridge mcore_bridge/tuners/lora.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.models import experts_of, text_config_of
from trainfit.launch.settings import Setting
from trainfit.launch.values import names, scalar
from trainfit.resolve.megatron.adapters import LINEARS

PEFT = "/training/peft"
EVERY = "all-linear"
DEFAULTS: Mapping[str, Any] = {"lora_rank": 8, "lora_dropout": 0.05}
FIELDS = {"lora_rank": "r", "lora_dropout": "dropout"}
TARGETS = "target_modules"
ARGUMENTS = (*FIELDS, TARGETS)
HELD = 2 + 4 + 3 * 4
"""Bytes of a parameter that is trained: in bf16, its gradient, its main copy and its moments."""


def put_adapters(given: Mapping[str, Setting], draft: Draft, tuner: Setting, whose: str) -> None:
    """LoRA's fields. Ranks share out less of adapters than Megatron-Bridge's do, which are priced:
    of those of a column-parallel linear only the second matrix, of a row-parallel one only the
    first; and every expert has its own.
    """
    draft.put(f"{PEFT}/method", "lora", tuner)
    for name, field in FIELDS.items():
        if name in given:
            value = given[name].value
            number = scalar(value) if isinstance(value, str) else value
            draft.put(f"{PEFT}/{field}", number, given[name])
        else:
            draft.default(f"{PEFT}/{field}", DEFAULTS[name], whose)
    targets = given.get(TARGETS)
    if targets is None:
        draft.default(f"{PEFT}/{TARGETS}", EVERY, whose)
    elif targets.value == EVERY:
        draft.put(f"{PEFT}/{TARGETS}", EVERY, targets)
    elif set(names(targets.value)) <= set(LINEARS):
        draft.put(f"{PEFT}/{TARGETS}", names(targets.value), targets)
    else:
        draft.default(f"{PEFT}/{TARGETS}", EVERY, whose)
        draft.leave_out(targets, "adapters of other modules than linears of layers")
    more = HELD * _parameters_more(draft)
    if more:
        why = "adapters are priced as Megatron-Bridge's, of which ranks share out more"
        source = "modelscope/mcore-bridge mcore_bridge/tuners/lora.py: LoraParallelLinear"
        draft.leave_out(tuner, Effect(why, "raises", source, bytes=more))


def _parameters_more(draft: Draft) -> int:
    """Each of L / p layers has (1 - 1/t) 4 r h more beside attention and a network, and (E / e - 1)
    r (2 h + 3 f') beside experts.
    """
    config, r = text_config_of(draft), draft.get(f"{PEFT}/r")
    tp, pp, ep = (draft.get(f"/parallelism/{name}") or 1 for name in ("tp", "pp", "ep"))
    layers, hidden = config.get("num_hidden_layers"), config.get("hidden_size")
    if not (isinstance(layers, int) and isinstance(hidden, int) and isinstance(r, int)):
        return 0
    whole = 4 * r * hidden * (tp - 1) // tp
    width = config.get("moe_intermediate_size") or config.get("intermediate_size") or 0
    experts = max(0, experts_of(draft) // ep - 1) * r * (2 * hidden + 3 * width)
    return -(-layers // pp) * (whole + experts)

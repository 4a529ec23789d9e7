"""Configs of axolotl, beside axolotl's own schema."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.launch.launches import Read, launch_of, read
from tests.parsers.run import parsed_by
from trainfit.launch.errors import LaunchError

COUNT = 600
BASE: dict[str, Any] = {
    "base_model": "Qwen/Qwen3-8B",
    "datasets": [{"path": "text", "type": "alpaca"}],
    "learning_rate": 0.0001,
    "num_epochs": 1,
    "optimizer": "adamw_torch",
    "lora_alpha": 16,
    "lora_target_linear": True,
}
GPUS = {"parallelism": {"num_gpus": 8}}
NUMBERS = (1, 2, 16, 4.0, "8", None)
SWITCHES = (True, False, None, "true", "false")
ADAPTERS: tuple[dict[str, Any], ...] = (
    {"adapter": "qlora", "load_in_4bit": True},
    {"adapter": "lora"},
    {},
)
SHARDED = {"fsdp_version": 2, "fsdp_config": {"reshard_after_forward": True}}
KERNELS = {"lora_qkv_kernel": "qkv", "lora_o_kernel": "o", "lora_mlp_kernel": "mlp"}


class Field(NamedTuple):
    """What a key may be given, the field of a job that what the schema makes of it becomes, and
    what that means where it is not set.
    """

    values: tuple[Any, ...]
    pointer: str
    becomes: Callable[[Any], Any] = lambda value: value
    unset: Any = None
    of_adapters: bool = False


FIELDS = {
    "micro_batch_size": Field(NUMBERS, "/training/micro_batch_size", unset=1),
    "gradient_accumulation_steps": Field(NUMBERS, "/training/num_microbatches", unset=1),
    "sequence_len": Field((*NUMBERS, 4096), "/training/seq_length"),
    "gradient_checkpointing": Field(
        SWITCHES, "/training/recompute/granularity", lambda value: "full" if value else None
    ),
    "lora_r": Field(NUMBERS, "/training/peft/r", of_adapters=True),
    "lora_dropout": Field(
        (0.1, 0, None, "0.2"), "/training/peft/dropout", unset=0, of_adapters=True
    ),
}


def config(chance: random.Random) -> dict[str, Any]:
    """One with adapters or without, and up to four keys changed."""
    made = BASE | chance.choice(ADAPTERS) | (SHARDED if chance.random() < 0.2 else {})
    made |= {"lora_r": 8} if "adapter" in made else {}
    for key in chance.choices(list(FIELDS), k=chance.randint(1, 4)):
        made[key] = chance.choice(FIELDS[key].values)
    for key in KERNELS:
        if chance.random() < 0.1:
            made[key] = chance.choice(SWITCHES)
    if chance.random() < 0.1:
        made["trust_remote_code"] = chance.choice((True, False))
    return made


def read_by_trainfit(config: Mapping[str, Any]) -> Read | None:
    command = ["axolotl", "train", "config.json"]
    try:
        return read(launch_of({"config.json": json.dumps(config)}, command, overrides=GPUS))
    except LaunchError:
        return None


def fused(own: Mapping[str, Any]) -> list[str]:
    return [part for key, part in KERNELS.items() if own.get(key)]


def test_fields_are_what_the_schema_makes_of_them() -> None:
    chance = random.Random("axolotl")
    configs = [config(chance) for _ in range(COUNT)]
    seen: Counter[str] = Counter()
    differ = []
    for given, own in zip(configs, parsed_by("axolotl", configs), strict=True):
        found = read_by_trainfit(given)
        if found is None or own is None:
            continue
        adapts = "adapter" in own
        for key, field in FIELDS.items():
            if field.of_adapters and not adapts:
                continue
            value = found.field(field.pointer)
            expected = field.becomes(own.get(key, field.unset))
            if (field.unset if value is None else value) != expected:
                differ.append((given, key, value, expected))
            seen[key] += 1
        if adapts and (found.field("/training/peft/fused") or []) != fused(own):
            differ.append((given, "kernels", found.field("/training/peft/fused"), fused(own)))
        seen["kernels"] += adapts
    assert not differ
    assert min(seen[key] for key in (*FIELDS, "kernels")) >= COUNT // 4

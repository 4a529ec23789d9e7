"""Every field of the classes that a format's keys come from is in one of its lists."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.launch.launches import DATA, launch_of, read
from trainfit.launch.errors import LaunchError

FIELDS: dict[str, dict[str, Any]] = json.loads((DATA / "fields.json").read_text(encoding="utf-8"))
TRAINER = {"model_name_or_path": "Qwen/Qwen3-8B", "output_dir": "out"}
BASES: dict[str, dict[str, Any]] = {
    "transformers": TRAINER | {"packing": True},
    "transformers_dpo": TRAINER | {"max_prompt_length": 512},
    "accelerate": {"distributed_type": "FSDP", "compute_environment": "LOCAL_MACHINE"},
    "deepspeed": {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}},
    "llama_factory": {"model_name_or_path": "Qwen/Qwen3-8B", "stage": "sft", "template": "qwen3"}
    | {"finetuning_type": "lora"},
    "axolotl": {"base_model": "Qwen/Qwen3-8B", "sequence_len": 2048, "micro_batch_size": 1},
}
"""The least that is recognised as a format."""
UNKNOWN = "no list of this format has this key"
OVERRIDES = {
    "model": {"hf_id": "Qwen/Qwen3-8B"},
    "parallelism": {"num_gpus": 8, "data_parallel_replicate_size": 1},
    "training": {"micro_batch_size": 1, "seq_length": 2048, "precision": "bf16"},
}


def with_key(base: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    *parents, name = key.split(".")
    whole = json.loads(json.dumps(base))
    part = whole
    for parent in parents:
        inner = part.get(parent)
        part[parent] = inner if isinstance(inner, dict) else {}
        part = part[parent]
    part[name] = value
    return dict(whole)


@pytest.mark.parametrize("kind", FIELDS)
def test_every_field_is_in_a_list(kind: str) -> None:
    """With a value that is no default, so that nothing is let pass for having no effect."""
    keys = FIELDS[kind]["keys"]
    assert [key for key in keys if not is_known(with_key(BASES[kind], key, True), key)] == []


def is_known(config: dict[str, Any], key: str) -> bool:
    """Whether a key of a config is read, left out with a reason, or complained of by its name."""
    try:
        found = read(launch_of({"x.json": json.dumps(config)}, overrides=OVERRIDES))
    except LaunchError as error:
        return any(key.rpartition(".")[2] in each.message for each in error.complaints)
    why = {each.key: each.why for each in found.account.unsupported}
    listed = found.recognised | found.irrelevant | found.left_out
    return key in listed and why.get(key) != UNKNOWN

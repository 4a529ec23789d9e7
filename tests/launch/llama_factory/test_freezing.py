"""What LLaMA-Factory leaves out of training: layers, towers, and a language model around these."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read

BASE = {
    "model_name_or_path": "Qwen/Qwen3-8B",
    "stage": "sft",
    "template": "qwen3",
    "finetuning_type": "freeze",
    "per_device_train_batch_size": 1,
    "pure_bf16": True,
}
VISION = {"model_name_or_path": "Qwen/Qwen2.5-VL-7B-Instruct", "finetuning_type": "full"}
MLLAMA = VISION | {"model_name_or_path": "meta-llama/Llama-3.2-11B-Vision-Instruct"}
ZERO = {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}


def run(**keys: Any) -> Read:
    files = {"run.json": json.dumps(BASE | keys), "zero.json": json.dumps(ZERO)}
    command = ["llamafactory-cli", "train", "run.json"]
    return read(launch_of(files, command, env={"WORLD_SIZE": "8"}))


@pytest.mark.parametrize(
    ("keys", "first", "last"),
    [
        ({}, 34, None),
        ({"freeze_trainable_layers": 8}, 28, None),
        ({"freeze_trainable_layers": -8}, None, 28),
        ({"freeze_trainable_layers": 0}, 36, None),
        ({"freeze_trainable_layers": 40}, 0, None),
    ],
)
def test_the_last_layers_are_trained_or_the_first(
    keys: dict[str, Any], first: int | None, last: int | None
) -> None:
    found = run(**keys)
    assert found.field("/training/num_frozen_layers") == first
    assert found.field("/training/num_frozen_last_layers") == last
    assert found.field("/training/frozen") == ["embed_tokens", "lm_head", "final_norm"]
    assert found.field("/training/recompute/frozen_layers") is False
    assert not found.unsupported


def test_modules_outside_the_layers_are_trained_where_they_are_named() -> None:
    found = run(freeze_extra_modules="lm_head,norm")
    assert found.field("/training/frozen") == ["embed_tokens"]


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"freeze_trainable_modules": "mlp"}, "freeze_trainable_modules"),
        ({"freeze_extra_modules": "wpe"}, "freeze_extra_modules"),
        ({"pure_bf16": False, "bf16": True}, "finetuning_type"),
        ({"finetuning_type": "oft"}, "finetuning_type"),
        (MLLAMA | {"freeze_multi_modal_projector": False}, "freeze_multi_modal_projector"),
        (VISION | {"freeze_language_model": True}, "freeze_language_model"),
        (VISION | {"pure_bf16": False, "bf16": True}, "model_name_or_path"),
        (
            VISION | {"finetuning_type": "lora", "freeze_multi_modal_projector": False},
            "freeze_multi_modal_projector",
        ),
    ],
)
def test_what_a_job_cannot_say_is_not_modelled(keys: dict[str, Any], key: str) -> None:
    assert run(**keys).unsupported == {key}


def test_deepspeed_has_one_type_for_all() -> None:
    found = run(pure_bf16=False, bf16=True, deepspeed="zero.json")
    assert found.field("/training/num_frozen_layers") == 34
    assert not found.unsupported


@pytest.mark.parametrize(
    ("keys", "frozen"),
    [
        ({}, ["vision_tower", "multi_modal_projector"]),
        (
            {
                "freeze_vision_tower": False,
                "freeze_multi_modal_projector": False,
                "freeze_language_model": True,
            },
            ["language_model"],
        ),
        ({"freeze_vision_tower": False, "freeze_multi_modal_projector": False}, None),
        ({"freeze_multi_modal_projector": False}, ["vision_tower"]),
        (
            {"freeze_multi_modal_projector": False, "freeze_language_model": True},
            ["vision_tower", "language_model"],
        ),
        ({"finetuning_type": "lora"}, ["vision_tower", "multi_modal_projector"]),
        (
            {"finetuning_type": "lora", "freeze_vision_tower": False},
            ["multi_modal_projector"],
        ),
        (
            {"finetuning_type": "freeze", "freeze_trainable_layers": 4},
            ["embed_tokens", "lm_head", "final_norm", "vision_tower", "multi_modal_projector"],
        ),
    ],
)
def test_a_tower_and_its_projector_are_frozen_unless_told_otherwise(
    keys: dict[str, Any], frozen: list[str] | None
) -> None:
    found = run(**(VISION | keys))
    assert found.field("/training/frozen") == frozen
    assert not found.unsupported

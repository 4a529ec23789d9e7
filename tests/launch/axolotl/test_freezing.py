"""What axolotl leaves out of training: patterns of names, and what feeds a language model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from trainfit.launch.axolotl.freezing import Trained, trained_by

BASE = {
    "base_model": "Qwen/Qwen3-8B",
    "sequence_len": 2048,
    "micro_batch_size": 1,
    "bf16": True,
}


def run(**keys: Any) -> Read:
    files = {"run.json": json.dumps(BASE | keys)}
    overrides = {"parallelism": {"num_gpus": 8}}
    return read(launch_of(files, ["axolotl", "train", "run.json"], overrides=overrides))


@pytest.mark.parametrize(
    ("patterns", "trained"),
    [
        (["model.layers.2[0-9]+.", "model.layers.3[0-9]+."], Trained(frozenset(), 20, 36)),
        (["^model.layers.(2[89]|3[0-5])."], Trained(frozenset(), 28, 36)),
        (["model.layers.[0-3]\\."], None),
        (["model.layers.[0-3]."], Trained(frozenset(), 0, 4)),
        (["model.layers.1"], None),
        (["model.layers.3"], None),
        (
            ["^lm_head.weight$", "^model.embed_tokens.weight$", "model.norm"],
            Trained(frozenset({"lm_head", "embed_tokens", "final_norm"}), 36, 36),
        ),
        (["^model.embed_tokens.weight$[:32000]"], None),
        (["model.layers.1[0-9].self_attn"], None),
        (["model.layers.(1|2.mlp)."], None),
        (["model.layers.[0-9"], None),
        (["model.layers." + 40 * "(" + "1" + 40 * ")" + "."], Trained(frozenset(), 1, 2)),
        (["model.layers." + 400 * "(" + "1" + 400 * ")"], None),
    ],
)
def test_patterns_of_what_is_trained(patterns: list[str], trained: Trained | None) -> None:
    assert trained_by(patterns, 36) == trained


def test_patterns_become_frozen_layers_and_modules() -> None:
    found = run(unfrozen_parameters=["model.layers.(2[0-9]|30).", "^lm_head.weight$"])
    assert found.field("/training/frozen") == ["embed_tokens", "final_norm"]
    assert found.field("/training/num_frozen_layers") == 20
    assert found.field("/training/num_frozen_last_layers") == 5
    assert not found.unsupported


@pytest.mark.parametrize(
    "keys",
    [
        {"unfrozen_parameters": ["model.layers.2[0-9].mlp"]},
        {"unfrozen_parameters": ["lm_head"], "adapter": "lora", "lora_target_linear": True},
    ],
)
def test_patterns_that_a_job_cannot_say_are_not_modelled(keys: dict[str, Any]) -> None:
    assert "unfrozen_parameters" in run(**keys).unsupported


def test_patterns_that_are_empty_freeze_nothing() -> None:
    found = run(unfrozen_parameters=[], freeze_mm_modules=False)
    assert not found.unsupported
    assert found.field("/training/frozen") is None


def test_what_feeds_a_language_model() -> None:
    found = run(base_model="Qwen/Qwen2.5-VL-7B-Instruct", freeze_mm_modules=True)
    assert found.field("/training/frozen") == ["vision_tower", "multi_modal_projector"]
    assert not found.unsupported
    assert run(freeze_mm_modules=True).unsupported == {"freeze_mm_modules"}

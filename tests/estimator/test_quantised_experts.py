"""Experts that bitsandbytes quantises with the linears, and those that stay as they are."""

from __future__ import annotations

from typing import Any

from trainfit.questions.estimate import answer
from trainfit.specs.job import Job

EXPERTS = 48 * 128 * 3 * 2048 * 768
"""Elements of Qwen3-30B-A3B's: layers, experts, matrices, hidden size and width."""
NF4 = 1 / 2 + 4 / 64


def weights(**peft: Any) -> int:
    """Bytes of Qwen3-30B-A3B's weights on one GPU."""
    job = {
        "model": {"hf_id": "Qwen/Qwen3-30B-A3B"},
        "training": {
            "seq_length": 128,
            "micro_batch_size": 1,
            "precision": "autocast-bf16",
            "peft": {"method": "lora", "target_modules": ["q_proj"], **peft},
        },
        "framework": {"name": "transformers"},
    }
    (stage,) = answer(Job.model_validate(job)).stages
    return next(each.bytes for each in stage.components if each.name == "weights")


def test_stacked_experts_are_not_quantised_and_as_wide_as_the_rest_of_the_base() -> None:
    quantised = weights(quantization="nf4", quantize_experts=True, base_dtype="bf16")
    stacked = weights(quantization="nf4", base_dtype="bf16")
    assert stacked - quantised == EXPERTS * (2 - NF4)
    prepared = weights(quantization="int8") - weights(quantization="int8", quantize_experts=True)
    assert prepared == EXPERTS * (4 - 1)


def test_without_quantisation_nothing_is_said_of_experts() -> None:
    assert weights() == weights(quantize_experts=True)

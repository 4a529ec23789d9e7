"""Gates of an attention's output: what they and the product keep, beside what the kernel does."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.questions.estimate import answer, plan_of
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

HEADS, WIDTH, TOKENS = 16, 128, 1024
BF16, FP32 = 2, 4
OUTPUT = HEADS * WIDTH * BF16
SIZES = {
    "hidden_size": 1024,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 4,
    "head_dim": WIDTH,
    "vocab_size": 1024,
    "intermediate_size": 512,
    "num_hidden_layers": 1,
    "layer_types": ["full_attention"],
}
LFM3 = SIZES | {"model_type": "lfm3"}
LAGUNA = SIZES | {
    "model_type": "laguna",
    "mlp_layer_types": ["dense"],
    "num_attention_heads_per_layer": [HEADS],
}
QWEN = SIZES | {"model_type": "qwen3_5_text"}
AFMOE = SIZES | {"model_type": "afmoe", "num_dense_layers": 1}


def job(config: dict[str, Any], **training: Any) -> Job:
    return Job.model_validate(
        {
            "model": {"hf_config": config},
            "training": {"seq_length": TOKENS, "precision": "bf16-pure", **training},
            "framework": {"name": "transformers"},
        }
    )


def kept(config: dict[str, Any], **training: Any) -> float:
    """Bytes that the one layer saves of a token."""
    plan = plan_of(job(config, **training))
    assert isinstance(plan, PytorchPlan)
    return PytorchLedger(plan).layer_segments[0].saved / TOKENS


def test_a_gate_a_head_keeps_the_product_and_itself() -> None:
    without = kept(LFM3 | {"use_attention_gate": False})
    assert kept(LFM3) - without == OUTPUT + HEADS * BF16


def test_a_softplus_keeps_its_input_in_fp32_too() -> None:
    by_feature = kept(LAGUNA | {"gating": "per-element"})
    gates = HEADS * (WIDTH - 1)
    assert by_feature - kept(LAGUNA) == gates * (BF16 + FP32)


@pytest.mark.parametrize(
    ("config", "measured"),
    [(LFM3, 62_656), (LAGUNA, 54_520), (AFMOE, 80_032), (QWEN, 67_745)],
)
def test_layers_keep_what_a_real_step_was_seen_to_keep(
    config: dict[str, Any], measured: int
) -> None:
    """Bytes of a token, from steps of tests/oracle with one layer and with two."""
    assert kept(config) == pytest.approx(measured, abs=10)


def test_a_product_that_no_weight_reads_is_not_kept() -> None:
    """Behind adapters of queries alone, o_proj keeps nothing; the gate keeps both its factors."""
    adapters = {"peft": {"method": "lora", "r": 8, "target_modules": ["q_proj"]}}
    assert kept(LFM3, **adapters) - kept(LFM3 | {"use_attention_gate": False}, **adapters) == (
        HEADS * BF16
    )


def test_the_projection_of_gates_is_adapted_with_all_others() -> None:
    """r (h + a) parameters more."""
    adapters = {"peft": {"method": "lora", "r": 8}}
    gated, plain = (
        answer(job(LFM3 | {"use_attention_gate": gate}, **adapters)).model.parameters.trainable
        for gate in (True, False)
    )
    assert gated - plain == 8 * (1024 + HEADS)

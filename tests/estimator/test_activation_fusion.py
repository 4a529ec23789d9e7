"""Gated activations that no kernel fuses: what autograd keeps of them, of one layer."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.run import run_of
from trainfit.questions.estimate import plan_of
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.job import Job

TOKENS, FFN, TOP_K, BF16 = 1024, 512, 2, 2
SPEC = {
    "num_layers": 1,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "ffn_hidden_size": FFN,
    "vocab_size": 1024,
    "add_bias_linear": False,
    "position_embedding_type": "rope",
}
EXPERTS = {"num_moe_experts": 4, "moe_router_topk": TOP_K}


def kept(fused: bool, switch: str = "bias_activation_fusion", **spec: Any) -> int:
    """Bytes that the layer saves."""
    job = {
        "model": {"spec": SPEC | {"activation_func": "geglu"} | spec},
        "training": {"seq_length": TOKENS, "precision": "bf16"},
        "framework": {"name": "megatron", switch: fused},
    }
    plan = plan_of(Job.model_validate(job))
    assert isinstance(plan, MegatronPlan)
    return MegatronLedger(run_of(plan)).layer_segments[0].saved


FACTOR = TOKENS * FFN * BF16


@pytest.mark.parametrize(
    ("spec", "factors"),
    [
        ({}, 2),
        ({"activation_func": "swiglu"}, 2),
        ({"activation_func_clamp_value": 7.0}, 3),
        ({"activation_func": "gelu"}, 0),
        (EXPERTS, 3 * TOP_K),
        (EXPERTS | {"activation_func_clamp_value": 7.0}, 4 * TOP_K),
    ],
    ids=["geglu", "swiglu", "clamped", "no gate", "weighted experts", "clamped experts"],
)
def test_both_factors_are_kept(spec: dict[str, Any], factors: int) -> None:
    """Of experts also the product before it is weighted."""
    assert kept(False, **spec) - kept(True, **spec) == factors * FACTOR


def test_squares_are_weighted_in_one_kernel() -> None:
    """Source: megatron/core/fusions/fused_weighted_squared_relu.py (save_for_backward)."""
    switch, squared = (
        "use_fused_weighted_squared_relu",
        EXPERTS | {"activation_func": "squared_relu"},
    )
    assert kept(False, switch, **squared) - kept(True, switch, **squared) == TOP_K * FACTOR


def test_a_fused_clamp_keeps_nothing() -> None:
    assert kept(True, activation_func_clamp_value=7.0) == kept(True)

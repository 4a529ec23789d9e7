"""Kernels beside figures that were published of them alone."""

from dataclasses import replace

import pytest

from trainfit.catalog.speed import gpu_speeds, stacks
from trainfit.estimator.demands import AttentionDemand
from trainfit.estimator.frameworks.framework import Execution
from trainfit.steptime.kernels import attention_seconds, rates

TOKENS = 16_384
LENGTH = 4096


@pytest.mark.parametrize(
    ("flash2", "narrow", "wide"),
    [(True, 284, 319), (True, 321, 368), (False, 363, 518), (False, 408, 609)],
    ids=["FlashAttention-2", "2, not causal", "cuDNN", "cuDNN, not causal"],
)
def test_narrow_heads_reach_less_of_attention(flash2: bool, narrow: int, wide: int) -> None:
    """TFLOP/s with 64 and 128 features on an H100, of 2,048 in all (2407.08608, figure 5)."""
    stack = replace(stacks()["megatron"], flash2=flash2)
    execution = Execution(None, overlaps_experts=False, adds_apart=False, launches_experts=False)
    there = rates(gpu_speeds()["H100-80GB-SXM"], stack, execution)

    def reached(features: int) -> float:
        heads = 2048 // features
        demand = AttentionDemand(TOKENS, heads, 2 * features, LENGTH)
        return TOKENS * heads * features * LENGTH / attention_seconds(demand, there)

    assert reached(128) / reached(64) == pytest.approx(wide / narrow, rel=0.12)

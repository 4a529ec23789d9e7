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


def test_exponentials_hold_up_attention_in_fp8() -> None:
    """With heads of 192 and 128 features a GB300 was 1.35 times as fast as a GB200, whose
    exponentials are half as fast (NVIDIA's blog: Making Softmax More Efficient with NVIDIA
    Blackwell Ultra).
    """
    execution = Execution("mxfp8", overlaps_experts=False, adds_apart=False, launches_experts=False)
    demand = AttentionDemand(TOKENS, 128, 192 + 128, LENGTH)

    def seconds(card: str) -> float:
        gpu = gpu_speeds()[card]
        gpu = replace(gpu, reach=replace(gpu.reach, attention=0.5))
        narrow = execution._replace(narrow_attention=True)
        return gpu.bf16_flops * attention_seconds(demand, rates(gpu, stacks()["megatron"], narrow))

    assert seconds("GB200") / seconds("GB300") == pytest.approx(1.35, rel=0.08)

"""Megatron-FSDP's buffers: what of the states is whole on a rank beside its share."""

from __future__ import annotations

from typing import Any

from trainfit.questions.estimate import answer
from trainfit.specs.job import Job

HIDDEN, FFN, VOCABULARY, RANKS = 1024, 4096, 32768, 8
LAYER = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * FFN + 2 * HIDDEN
EMBEDDING = HIDDEN * VOCABULARY
SPEC = {
    "num_layers": 8,
    "hidden_size": HIDDEN,
    "num_attention_heads": 8,
    "ffn_hidden_size": FFN,
    "swiglu": True,
    "vocab_size": VOCABULARY,
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "add_bias_linear": False,
    "untie_embeddings_and_output_weights": True,
}
BF16, FP32 = 2, 4


def stage(strategy: str = "optim_grads_params", **framework: Any) -> Any:
    job = {
        "model": {"spec": SPEC},
        "parallelism": {"num_gpus": RANKS, "data_parallel_sharding_strategy": strategy},
        "training": {"seq_length": 1024, "num_microbatches": 4},
        "framework": {"name": "megatron", **framework},
    }
    return answer(Job.model_validate(job)).stages[0]


def allocated(strategy: str = "optim_grads_params", **framework: Any) -> int:
    return int(stage(strategy, **framework).allocated_bytes.expected)


def test_double_buffers_hold_two_layers_and_what_has_another_size_comes_beside() -> None:
    """Without them the largest unit is the embedding, with one fetched ahead of it."""
    single = (2 * BF16 + FP32) * EMBEDDING
    double = 2 * (BF16 + FP32) * LAYER + (BF16 + FP32) * EMBEDDING
    assert allocated(fsdp_double_buffer=True) - allocated() == double - single


def test_weights_that_nobody_shares_out_have_no_buffers() -> None:
    single = FP32 * EMBEDDING
    double = 2 * FP32 * LAYER + FP32 * EMBEDDING
    more = allocated("optim_grads", fsdp_double_buffer=True) - allocated("optim_grads")
    assert more == double - single
    assert allocated("optim", fsdp_double_buffer=True) == allocated("optim")


def test_buffers_of_nccl_are_double_ones() -> None:
    assert allocated(nccl_ub=True) == allocated(fsdp_double_buffer=True)
    assert allocated("optim", nccl_ub=True) == allocated("optim")


def test_buffers_of_nccl_are_assumed_to_be_rounded_little() -> None:
    job = {
        "model": {"spec": SPEC},
        "training": {"seq_length": 1024},
        "framework": {"name": "megatron", "nccl_ub": True},
    }
    assumed = {each.id for each in answer(Job.model_validate(job)).assumptions}
    assert "nccl-user-buffers" in assumed

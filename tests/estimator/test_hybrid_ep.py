"""HybridEP: rows come as experts read them, out of a buffer that lies outside PyTorch."""

from __future__ import annotations

from typing import Any

from trainfit.questions.estimate import answer
from trainfit.specs.job import Job

HIDDEN, EXPERTS, TOP_K, TOKENS = 1024, 32, 8, 4096
SPEC = {
    "num_layers": 4,
    "hidden_size": HIDDEN,
    "num_attention_heads": 8,
    "ffn_hidden_size": 2048,
    "moe_ffn_hidden_size": 512,
    "num_moe_experts": EXPERTS,
    "moe_router_topk": TOP_K,
    "vocab_size": 1024,
    "swiglu": True,
    "add_bias_linear": False,
    "position_embedding_type": "rope",
}
FLEX = {"token_dispatcher_type": "flex", "flex_dispatcher_backend": "hybridep"}


def stage(ep: int, moe: dict[str, Any]) -> Any:
    job = {
        "model": {"spec": SPEC},
        "parallelism": {"num_gpus": 32, "ep": ep},
        "training": {"seq_length": TOKENS, "num_microbatches": 4, "moe": moe},
        "framework": {"name": "megatron"},
    }
    return answer(Job.model_validate(job)).stages[0]


def outside(ep: int, moe: dict[str, Any]) -> tuple[int, int]:
    """Low and high of what the card holds beyond PyTorch's allocator."""
    found = stage(ep, moe)
    device, reserved = found.device_bytes, found.reserved_bytes
    return device.low - reserved.low, device.high - reserved.high


def test_the_buffer_has_room_for_the_tokens_of_all_ranks() -> None:
    """Its rows have a token in bf16, scales of 128 features and a probability for each expert; the
    connections of an all-to-all, 0.5 to 2.7 GB, are not made.
    """
    rows = 8 * TOKENS * (2 * HIDDEN + 4 * HIDDEN // 128 + 4 * EXPERTS)
    mib = 2**20
    flex, usual = outside(8, FLEX), outside(8, {})
    assert flex[0] - usual[0] == rows - 500 * mib
    assert flex[1] - usual[1] == rows - 2700 * mib


def test_what_passes_a_network_has_room_of_its_own() -> None:
    """A rack reaches all ranks; of nodes of 8, tokens go out once, and come in from three others
    three times, beside the probabilities for the experts of one node.
    """
    token, scales, mib = 2 * HIDDEN, 4 * HIDDEN // 128, 2**20
    rack = 32 * TOKENS * (token + scales + 4 * EXPERTS)
    row = token + 4 * EXPERTS // 4
    nodes = 32 * TOKENS * (row + scales) + TOKENS * (token + scales + 4 * EXPERTS + 9 * row)
    flex, usual = outside(32, FLEX), outside(32, {})
    assert flex[0] - usual[0] == rack - 500 * mib
    assert flex[1] - usual[1] == nodes - 2700 * mib


def test_fewer_rows_are_held_than_by_an_all_to_all() -> None:
    """The permuted rows [T, h] and those of the other order are never made."""
    permuted = TOKENS * TOP_K * HIDDEN * 2
    flex, usual = stage(8, FLEX), stage(8, {})
    assert usual.allocated_bytes.expected - flex.allocated_bytes.expected > permuted

"""What Megatron-LM's repository says of its functional tests that rows leave out.

Source: NVIDIA/Megatron-LM at d98e8a64ddf3. Each file of tests/test_utils/recipes runs all of its
tests on as many GPUs, whether they run today or stand in comments; `model_config.yaml` of a test
has its options. Tests for a release run within NVIDIA alone, on a number that is not said.
"""

from __future__ import annotations

from typing import Any

from tests.accuracy.outcomes import NotStatedError

Row = dict[str, Any]

GPUS_OF_A_RECIPE = 8
"""One node of H100 or A100, or two of GB200."""
GPUS_OF_ONE_NODE = {"GB200": 4}

OFFLOADED = "[expert_fc1 moe_act attn_norm mlp_norm qkv_linear core_attn attn_proj]"
OMITTED: dict[str, Row] = {
    "fine_grained_offloading": {
        "fine-grained-activation-offloading": True,
        "offload-modules": OFFLOADED,
    }
}
"""Options of tests whose names have these words, which rows do not repeat."""


RECORDED: dict[str, Row] = {
    "zp_z3_resume_torch_dist_te_8experts": {"megatron-fsdp-main-grads-dtype": "fp32"},
}
"""What was the default where the figures of tests with these words were recorded, and is not now.
Of 2026-03-22, when Megatron-FSDP kept gradients in fp32 (febd25e3fb, mcore_fsdp_adapter.py)."""


def is_functional_test(row: Row) -> bool:
    return "raw_args" in row["training"] and " CI" in row.get("framework", "")


def completed(row: Row) -> Row:
    """A row with the GPUs and the options of its test.

    Raises NotStatedError where nobody knows them, or where the figure is of another test.
    """
    if "recorded under an older config" in row["notes"]:
        raise NotStatedError("the figure was recorded under an older configuration of the test")
    layout, training = row["parallelism"], row["training"]
    if layout["world_size"] is None and "_release" in row["id"]:
        raise NotStatedError("no public recipe says on how many GPUs the test ran")
    arguments = training["raw_args"]
    for words, options in OMITTED.items():
        if words in row["id"]:
            arguments = arguments | options
    return row | {
        "parallelism": layout | {"world_size": layout["world_size"] or _gpus(row)},
        "training": training | {"raw_args": arguments},
    }


def as_recorded(row: Row) -> Row:
    """A row with the defaults of the release that recorded it, where they have changed since."""
    training = row["training"]
    for words, options in RECORDED.items():
        if words in row["id"]:
            return row | {"training": training | {"raw_args": options | training["raw_args"]}}
    return row


def _gpus(row: Row) -> int:
    card = row["gpu"]["type"]
    return (
        GPUS_OF_ONE_NODE.get(card, GPUS_OF_A_RECIPE) if "1node" in row["id"] else GPUS_OF_A_RECIPE
    )

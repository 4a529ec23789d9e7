"""Products that run with their adapters as one function keep what axolotl/kernels/lora.py hands to
save_for_backward.
"""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.questions.estimate import plan_of
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

TOKENS, HIDDEN, QUERIES, KEYS, FFN, RANK = 2 * 4096, 4096, 4096, 1024, 14_336, 16
"""Of Llama-3.1-8B, and a step on two samples."""
BF16 = 2


def kept(
    *fused: str,
    dropout: float = 0,
    precision: str = "bf16-pure",
    adapter_dtype: str = "bf16",
    model: str = "meta-llama/Llama-3.1-8B",
    target_modules: str | list[str] = "all-linear",
) -> int:
    """Bytes that one layer keeps for backward."""
    peft: dict[str, Any] = {
        "method": "lora",
        "r": RANK,
        "dropout": dropout,
        "adapter_dtype": adapter_dtype,
        "target_modules": target_modules,
        "fused": fused,
    }
    if precision != "bf16-pure":
        peft["base_dtype"] = "bf16"
    job = {
        "model": {"hf_id": model},
        "training": {
            "seq_length": 4096,
            "micro_batch_size": 2,
            "precision": precision,
            "attention": {"backend": "flash"},
            "peft": peft,
        },
        "framework": {"name": "transformers"},
    }
    plan = plan_of(Job.model_validate(job))
    assert isinstance(plan, PytorchPlan)
    return PytorchLedger(plan).layer_segments[0].saved


LOW_RANK = TOKENS * RANK * BF16
"""What an adapter makes of its input, which these functions make again."""


def test_an_mlp_keeps_neither_what_is_activated_nor_what_is_gated() -> None:
    assert kept() - kept("mlp") == 2 * TOKENS * FFN * BF16 + 3 * LOW_RANK


def test_queries_keys_and_values_keep_no_low_rank_products() -> None:
    assert kept() - kept("qkv") == 3 * LOW_RANK
    assert kept() - kept("o") == LOW_RANK


def test_a_dropout_leaves_one_input_for_all_and_one_mask() -> None:
    """PEFT has one of each for each adapter, and keeps no input besides. Of its MLP it keeps what
    is activated, what the dropout before down_proj leaves and its mask.
    """
    dropped = TOKENS * HIDDEN * (BF16 + 1)
    of_queries = kept(dropout=0.1) - kept("qkv", dropout=0.1)
    assert of_queries == 3 * (dropped + LOW_RANK) - dropped - TOKENS * HIDDEN * BF16
    of_mlp = kept(dropout=0.1) - kept("mlp", dropout=0.1)
    inside = TOKENS * FFN * (BF16 + BF16 + 1)
    assert of_mlp == 2 * dropped + inside + 3 * LOW_RANK - dropped - TOKENS * HIDDEN * BF16


def test_wide_adapters_are_kept_in_the_type_of_their_input() -> None:
    """Autocast keeps such copies too, until the forward of all layers is over."""
    narrow, wide = (
        kept("qkv", "o", "mlp", precision="autocast-bf16", adapter_dtype=each)
        for each in ("bf16", "fp32")
    )
    sides = 2 * (HIDDEN + QUERIES) + 2 * (HIDDEN + KEYS) + 3 * (HIDDEN + FFN)
    assert wide - narrow == RANK * sides * BF16


@pytest.mark.parametrize(
    ("model", "target_modules"),
    [
        ("meta-llama/Llama-3.1-8B", ["q_proj", "v_proj", "up_proj"]),
        ("microsoft/Phi-3-mini-4k-instruct", "all-linear"),
    ],
)
def test_what_lacks_an_adapter_or_is_packed_runs_as_peft_has_it(
    model: str, target_modules: str | list[str]
) -> None:
    of_peft = kept(model=model, target_modules=target_modules)
    assert kept("qkv", "mlp", "o", model=model, target_modules=target_modules) == of_peft

"""Adapters that learn the length of each row keep what peft/tuners/lora/dora.py multiplies with the
scaled lengths, and make the rows for their norms.
"""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.estimator.ledger import BlockOperation, Lifetime
from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

TOKENS, HIDDEN, FFN, RANK = 2 * 1024, 4096, 14_336, 16
"""Of Llama-3.1-8B's down_proj, and a step on two samples."""
BF16, FP32 = 2, 4


def job(model: str = "meta-llama/Llama-3.1-8B", **parts: Any) -> dict[str, Any]:
    peft = {"method": "lora", "r": RANK, "decomposed": True} | parts.pop("peft", {})
    return {
        "model": {"hf_id": model},
        "parallelism": {"num_gpus": 8},
        "training": {
            "micro_batch_size": 2,
            "seq_length": 1024,
            "precision": "bf16-pure",
            "peft": peft,
        },
        "framework": {"name": "transformers"},
    } | parts


def lengths(**peft: Any) -> BlockOperation:
    """What stands behind down_proj."""
    plan = plan_of(Job.model_validate(job(peft=peft)))
    assert isinstance(plan, PytorchPlan)
    groups = PytorchLedger(plan).kinds[0]
    return next(each for group in groups for each in group if each.name == "down_proj.lengths")


def size(operation: BlockOperation, lifetime: Lifetime) -> int:
    return sum(row.bytes for row in operation.tensors if row.lifetime is lifetime)


VECTORS = 3 * HIDDEN


def test_both_products_are_kept() -> None:
    kept = size(lengths(), Lifetime.SAVED)
    both = TOKENS * HIDDEN * (BF16 + FP32)
    assert kept == both + FP32 * (VECTORS + TOKENS * RANK)


def test_behind_a_dropout_a_copy_of_the_weight_is_kept() -> None:
    kept = size(lengths(dropout=0.05), Lifetime.SAVED)
    both = 2 * FP32 * TOKENS * HIDDEN
    assert kept == both + FP32 * (VECTORS + TOKENS * RANK + HIDDEN * FFN)
    narrow = size(lengths(dropout=0.05, adapter_dtype="bf16"), Lifetime.SAVED)
    assert narrow == BF16 * (2 * TOKENS * HIDDEN + VECTORS + TOKENS * RANK), "the weight itself"


@pytest.mark.parametrize(("dtype", "width", "copies"), [("fp32", FP32, 4), ("bf16", BF16, 3)])
def test_norms_are_of_rows_made_anew(dtype: str, width: int, copies: int) -> None:
    """An identity, the adapter's product, that scaled and the sum, and the weight as wide as it."""
    made = size(lengths(adapter_dtype=dtype), Lifetime.FORWARD)
    base_and_input = TOKENS * FFN * BF16 * (width > BF16)
    assert made == width * (FFN**2 + RANK * FFN + copies * HIDDEN * FFN) + base_and_input


def test_a_length_is_trained_for_each_row() -> None:
    (left,) = [row for row in lengths().tensors if row.lifetime is Lifetime.GRADIENT]
    assert left.bytes == FP32 * HIDDEN


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        (job("Qwen/Qwen3-30B-A3B"), "/training/peft/decomposed"),
        (job(peft={"fused": ["mlp"]}), "/training/peft/decomposed"),
        (job(parallelism={"num_gpus": 8, "tp": 2}), "/training/peft/decomposed"),
        (job(framework={"name": "torchtitan"}), "/training/peft/decomposed"),
        (job(framework={"name": "megatron"}), "/training/peft/decomposed"),
    ],
)
def test_what_is_not_followed_is_refused(asked: dict[str, Any], pointer: str) -> None:
    with pytest.raises(RefusedError) as refused:
        plan_of(Job.model_validate(asked))
    assert pointer in [each.pointer for each in refused.value.findings]
    assert {each.code for each in refused.value.findings} == {"not_modelled"}

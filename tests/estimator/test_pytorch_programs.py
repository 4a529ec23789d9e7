"""The programs of PyTorch's modules, in numbers and in symbols."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product
from math import ceil, prod
from typing import Any

import pytest

from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.pytorch.begun import seen
from trainfit.estimator.frameworks.pytorch.framework import trace
from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.estimator.ledger import Lifetime, Row
from trainfit.estimator.memo import Memo
from trainfit.estimator.segment import add_up
from trainfit.questions.estimate import plan_of
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

MODELS = (
    "meta-llama/Llama-3.1-8B",
    "google/gemma-2-2b",
    "gpt2",
    "microsoft/Phi-3-mini-4k-instruct",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "deepseek-ai/DeepSeek-V2-Lite",
)
LORA = {"method": "lora", "r": 8}
TRAININGS: tuple[dict[str, Any], ...] = (
    {"precision": "bf16-pure"},
    {"precision": "autocast-bf16", "peft": LORA | {"dropout": 0.1, "quantization": "nf4"}},
    {"precision": "bf16", "attention": {"backend": "eager"}, "loss": {"cross_entropy": "liger"}},
)

PREFIX: dict[str, Any] = {"peft": {"method": "prefix_tuning", "num_virtual_tokens": 8}}
CASES = [*product(MODELS, TRAININGS), (MODELS[0], PREFIX), ("gpt2", PREFIX)]


def ledger(
    hf_id: str, framework: str = "transformers", tp: int = 1, **training: Any
) -> PytorchLedger:
    job = {
        "model": {"hf_id": hf_id},
        "parallelism": {"num_gpus": tp, "tp": tp},
        "training": {"seq_length": 512, **training},
        "framework": {"name": framework},
    }
    plan = plan_of(Job.model_validate(job))
    assert isinstance(plan, PytorchPlan)
    return PytorchLedger(plan, symbolic=True)


def rows(of: PytorchLedger) -> Iterator[Row]:
    groups = chain(of.embedding(), *of.kinds, of.final_norm(), of.head())
    return chain.from_iterable(each.tensors for each in chain.from_iterable(groups))


def saved(of: PytorchLedger, operation: str, kind: int = 0) -> int:
    found = [each for each in chain.from_iterable(of.kinds[kind]) if each.name == operation]
    return sum(saved_of(each.tensors) for each in found)


def saved_of(tensors: tuple[Row, ...]) -> int:
    return sum(row.bytes for row in tensors if row.lifetime is Lifetime.SAVED)


@pytest.mark.parametrize(("hf_id", "training"), CASES)
def test_bytes_are_shape_times_width(hf_id: str, training: dict[str, Any]) -> None:
    found = list(rows(ledger(hf_id, **training)))
    assert found
    for row in found:
        assert row.bytes == ceil(prod(map(int, row.tensor.shape)) * row.tensor.width), row.formula


@pytest.mark.parametrize("framework", ["transformers", "torchtitan"])
def test_symbols_change_no_byte(framework: str) -> None:
    in_symbols = ledger("Qwen/Qwen3-30B-A3B", framework, precision="bf16")
    for groups, found in zip(in_symbols.kinds, in_symbols.layer_tables, strict=True):
        assert add_up(groups, in_symbols.dropped) == found.table
    (q,) = {row.formula for row in rows(in_symbols) if row.name == "q"}
    assert q == "q [n, a / t, d]"


def test_blocks_that_read_one_norm_output_keep_it_once() -> None:
    """q, k and v; gate and up."""
    kept = [
        row for row in rows(ledger(MODELS[0], precision="bf16-pure")) if row.name == "norm output"
    ]
    assert len(kept) == 3


def test_shared_experts_of_a_quantised_model_are_as_wide_as_a_feed_forward_network() -> None:
    """bitsandbytes' modules give back fp32 where autocast leaves the residual stream in it:
    gate, its activation and the linear factor.
    """
    lora: dict[str, Any] = {"precision": "autocast-bf16", "peft": LORA | {"quantization": "nf4"}}
    of = ledger("deepseek-ai/DeepSeek-V2-Lite", **lora)
    experts = 1
    assert saved(of, "activation", experts) == 3 * 4 * 512 * 2 * 1408


def test_a_layer_holds_a_stream_that_its_norm_only_copies() -> None:
    """OLMo's LayerNorm reads a copy in fp32; the residual stream waits beside it, before each of
    the two blocks (modeling_olmo.py).
    """
    of = ledger("allenai/OLMo-1B-hf", precision="bf16-pure")
    alone = of._segment("dense", of.layer_tables[0].table)
    assert of.layer_segments[0].forward.total - alone.forward.total == 2 * of.sizes.act


def test_norms_behind_an_adapter_of_the_first_layer_keep_what_they_read() -> None:
    """Gradients flow from the first adapter on, whatever else is adapted."""
    of = ledger(
        "google/gemma-2-2b", precision="bf16-pure", peft=LORA | {"target_modules": ["q_proj"]}
    )
    groups = seen(of._ran[0], of.plan.model.layer_kinds[0], of.sizes, "within")
    behind = [each for each in groups[2] if each.name == "norm"]
    assert all(saved_of(each.tensors) for each in behind)
    assert behind


def test_the_first_rank_has_the_rest_of_a_vocabulary() -> None:
    """torch.chunk gives 12,289 of 49,155 rows to the first of four ranks."""
    found = ledger("ibm-granite/granite-3.1-2b-base", "torchtitan", 4, precision="bf16")
    (kept,) = [row for row in rows(found) if row.name == "log-probabilities"]
    assert kept.bytes % 12_289 == 0


def cut(precision: str, **training: Any) -> dict[str, int]:
    """Bytes of what the head keeps and leaves with Cut Cross-Entropy, by tensor."""
    of = ledger(MODELS[0], precision=precision, loss={"cross_entropy": "cut"}, **training)
    kept = (Lifetime.SAVED, Lifetime.GRADIENT)
    operations = chain.from_iterable(of.head())
    return {
        row.name: row.bytes for each in operations for row in each.tensors if row.lifetime in kept
    }


def test_cut_cross_entropy_keeps_no_logits() -> None:
    tokens, vocabulary, hidden = 512, 128_256, 4096
    small = {"logsumexp": 4 * tokens, "labels": 8 * tokens, "average logits": 4 * vocabulary}
    weight = vocabulary * hidden
    assert cut("bf16-pure") == small | {"norm output": 2 * tokens * hidden} | {
        "weight gradient": 2 * weight
    }
    assert cut("autocast-bf16") == small | {
        "norm output in the narrow type": 2 * tokens * hidden,
        "head in the narrow type": 2 * weight,
        "weight gradient": 4 * weight,
    }
    assert "weight gradient" not in cut("bf16-pure", peft=LORA)


@pytest.mark.parametrize("training", [{"precision": "bf16-pure"}, {"precision": "autocast-bf16"}])
def test_a_trace_with_cut_cross_entropy_asks_for_as_much_as_the_ledger_says(
    training: dict[str, Any],
) -> None:
    of = ledger(MODELS[0], loss={"cross_entropy": "cut"}, peft=LORA, **training)
    recorded = trace(of.plan, Memo())
    assert recorded is not None
    (stage,) = estimate(of.plan).stages
    assert recorded.peak_bytes == stage.allocated_bytes.expected


def test_one_product_for_queries_keys_and_values_is_kept_whole() -> None:
    """Of three, checkpointing by operations keeps the first and the third; of one that, with the
    keys [n, g d] in it. What attention keeps are copies either way.
    """
    apart, fused = (
        plan_of(
            Job.model_validate(
                {
                    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
                    "training": {"seq_length": 512},
                    "framework": {"name": "torchtitan", "compile": True, "fuse_qkv": fuses},
                }
            )
        )
        for fuses in (False, True)
    )
    assert isinstance(apart, PytorchPlan)
    assert isinstance(fused, PytorchPlan)
    of_apart, of_fused = PytorchLedger(apart), PytorchLedger(fused)
    keys = 2 * 512 * 8 * 128
    assert of_fused.layer_tables[0].chosen - of_apart.layer_tables[0].chosen == keys
    kept = [
        sum(
            row.bytes
            for group in of.kinds[0]
            for each in group
            for row in each.tensors
            if row.lifetime is Lifetime.SAVED
        )
        for of in (of_apart, of_fused)
    ]
    assert kept[0] == kept[1]

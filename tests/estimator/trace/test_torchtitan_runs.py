"""What runs of torchtitan reserved, beside the replay of their requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from statistics import median

import pytest

from tests.accuracy.measured import check_usable, group, job_of
from tests.accuracy.outcomes import GIB, UnusableRowError
from tests.accuracy.test_corpus import DATA
from trainfit.estimator.allocator import CachingAllocator, Settings, repeat, replay
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.pytorch.framework import trace
from trainfit.estimator.memo import Memo
from trainfit.questions.estimate import plan_of
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job


def runs() -> Iterator[tuple[str, float, PytorchPlan]]:
    """The runs that are known completely, with the GiB that they reserved."""
    for line in (DATA / "corpus" / "measured.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        try:
            check_usable(row)
        except UnusableRowError:
            continue
        if group(row) == "titan":
            plan = plan_of(job_of(row))
            assert isinstance(plan, PytorchPlan)
            yield row["id"], row["measured"]["value_gib"], plan


@pytest.fixture(scope="module")
def errors() -> dict[str, float]:
    return {name: replayed(plan) / GIB / measured - 1 for name, measured, plan in runs()}


def replayed(plan: PytorchPlan) -> int:
    """The most bytes that are reserved in any step."""
    recorded = trace(plan, Memo())
    assert recorded is not None
    settings = Settings(expandable_segments=plan.framework.expandable_segments is not False)
    allocator = CachingAllocator(settings)
    replay(allocator, recorded.loaded)
    replay(allocator, recorded.first)
    assert repeat(allocator, recorded.later, 4).periodic
    return allocator.peak_reserved_bytes


def test_the_replay_is_within_a_percent_of_what_runs_reserved(errors: dict[str, float]) -> None:
    assert len(errors) == 9
    assert median(map(abs, errors.values())) < 0.005
    assert max(map(abs, errors.values())) < 0.01


def b200(name: str = "B200", **framework: str) -> PytorchPlan:
    """A run of torchtitan at 6fc499f on 8 B200, which reserved 33.72 GiB (torchao's
    docs/source/workflows/training.md).
    """
    job = {
        "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
        "parallelism": {"num_gpus": 8},
        "training": {
            "micro_batch_size": 1,
            "num_microbatches": 1,
            "seq_length": 8192,
            "precision": {"params": "fp32", "compute": "bf16", "fp8_recipe": "rowwise"},
            "recompute": {"granularity": "selective"},
            "loss": {"cross_entropy": "fused"},
            "attention": {"repeats_kv": True},
        },
        "framework": {"name": "torchtitan", "compile": True, "expandable_segments": True}
        | framework,
        "gpu": name,
    }
    plan = plan_of(Job.model_validate(job))
    assert isinstance(plan, PytorchPlan)
    return plan


def test_attention_that_checkpointing_does_not_name_is_made_again() -> None:
    again = b200(remake_attention="on-blackwell")
    assert abs(replayed(again) / GIB / 33.72 - 1) < 0.01
    kept, elsewhere = b200(), b200("H100-80GB", remake_attention="on-blackwell")
    allocated = [estimate(each).stages[0].allocated_bytes.expected for each in (kept, again)]
    output, logsumexp = 8192 * 4096 * 2, 32 * 8192 * 4
    assert allocated[0] - allocated[1] == pytest.approx(32 * (output + logsumexp), rel=0.05)
    assert not elsewhere.step.checkpointing.attention_again
    assert b200("H100-80GB", remake_attention="always").step.checkpointing.attention_again
    assert not b200("MI300X", remake_attention="always").step.checkpointing.attention_again


def test_a_trace_asks_for_as_much_as_the_ledger_says() -> None:
    for name, _, plan in runs():
        memo = Memo()
        recorded = trace(plan, memo)
        assert recorded is not None
        (stage,) = estimate(plan, memo=memo).stages
        assert recorded.peak_bytes == stage.allocated_bytes.expected, name

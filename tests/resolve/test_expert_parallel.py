"""Expert parallelism of transformers: what it goes with."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

SHARDED = {"data_parallel_sharding_strategy": "optim_grads_params"}


def job(
    parallelism: dict[str, Any], training: dict[str, Any], framework: dict[str, Any], model: str
) -> Job:
    return Job.model_validate(
        {
            "model": {"hf_id": model},
            "parallelism": {"num_gpus": 16, "ep": 8, **SHARDED, **parallelism},
            "training": training,
            "framework": {"name": "transformers", **framework},
        }
    )


def test_its_own_units_and_reduction_are_taken() -> None:
    plan = plan_of(job({}, {}, {}, "Qwen/Qwen3-30B-A3B"))
    assert isinstance(plan, PytorchPlan)
    assert plan.step.data_parallelism.embedding_and_head_apart
    assert plan.step.states.reduced == 4
    assert plan.layout.expert_optimizer_shards == 2


@pytest.mark.parametrize(
    ("parallelism", "training", "framework", "pointer"),
    [
        (
            {"data_parallel_sharding_strategy": "no_shard"},
            {},
            {},
            "data_parallel_sharding_strategy",
        ),
        ({}, {}, {"data_parallel_engine": "deepspeed"}, "data_parallel_engine"),
        ({}, {}, {"data_parallel_engine": "fsdp1"}, "data_parallel_engine"),
        ({}, {}, {"reshard_after_forward": False}, "reshard_after_forward"),
        ({"data_parallel_replicate_size": 4}, {}, {}, "data_parallel_replicate_size"),
        ({"tp": 2}, {}, {}, "tp"),
        ({"cp": 2}, {}, {}, "cp"),
        ({}, {"peft": {"method": "lora", "r": 8}}, {}, "peft"),
        ({}, {"recompute": {"granularity": "selective"}}, {}, "granularity"),
        ({}, {"precision": "autocast-bf16"}, {}, "precision"),
    ],
)
def test_a_job_that_it_does_not_run_is_refused_with_a_change(
    parallelism: dict[str, Any], training: dict[str, Any], framework: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        plan_of(job(parallelism, training, framework, "Qwen/Qwen3-30B-A3B"))
    found = [each for each in refused.value.findings if each.pointer.endswith(f"/{pointer}")]
    assert found
    assert found[0].suggestion


def test_a_model_whose_experts_it_does_not_divide_is_refused() -> None:
    with pytest.raises(RefusedError, match="no plan that divides the experts of dbrx"):
        plan_of(job({}, {}, {}, "databricks/dbrx-base"))

"""Communicators: one for every group of ranks that a job makes use of."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from trainfit.estimator import overhead
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.results import Interval
from trainfit.questions.estimate import plan_of
from trainfit.specs.framework import FrameworkName
from trainfit.specs.job import Job

DENSE = "meta-llama/Llama-3.1-8B"
EXPERTS = "Qwen/Qwen3-30B-A3B"


def communicators(model: str, framework: str, **parallelism: Any) -> int:
    """How many communicators are counted."""
    job = {
        "model": {"hf_id": model},
        "parallelism": parallelism,
        "framework": {"name": framework},
    }
    plan = plan_of(Job.model_validate(job))
    return overhead.communicators(plan, framework_of(plan).expert_groups(plan))


@pytest.mark.parametrize("framework", get_args(FrameworkName))
def test_a_dense_model_has_no_groups_of_experts(framework: str) -> None:
    """The world, dp, tp and the ranks of a model; etp defaults to tp and means nothing."""
    assert communicators(DENSE, framework, num_gpus=8, tp=4) == 4


def test_experts_have_tensor_parallel_ranks_of_their_own_under_megatron() -> None:
    """Even where they are the same ranks; those with the same experts are dp's then."""
    assert communicators(EXPERTS, "megatron", num_gpus=8, tp=4) == 5
    assert communicators(EXPERTS, "torchtitan", num_gpus=8, tp=4) == 4


def test_experts_that_are_divided_otherwise_are_reduced_in_a_group_of_their_own() -> None:
    """With etp 1 the same ones lie on all eight."""
    assert communicators(EXPERTS, "megatron", num_gpus=8, tp=4, etp=1) == 5


def context(num_gpus: int = 1, gpu: str = "A100-80GB", **framework: Any) -> Interval:
    job = {
        "model": {"hf_id": DENSE},
        "parallelism": {"num_gpus": num_gpus},
        "framework": {"name": "transformers", **framework},
        "gpu": gpu,
    }
    plan = plan_of(Job.model_validate(job))
    return overhead.context(plan, framework_of(plan).kernel_loading(plan))


@pytest.mark.parametrize("num_gpus", [1, 4])
def test_kernels_that_are_loaded_at_once_are_in_the_context(num_gpus: int) -> None:
    """1.66 GiB on A100; several ranks have no more of them, as NCCL's are among them."""
    eager = context(num_gpus, cuda_module_loading="eager")
    lazy = context(num_gpus, cuda_module_loading="lazy")
    assert eager.expected == 1_700 * overhead.MIB
    assert eager.low > lazy.expected
    assert lazy.high == overhead.CONTEXT.high


def test_it_is_either_where_nothing_says_it() -> None:
    either = context()
    assert either.low == context(cuda_module_loading="lazy").low
    assert either.expected == context(cuda_module_loading="lazy").expected
    assert either.high == context(cuda_module_loading="eager").high


def test_on_cards_that_only_later_releases_know_nothing_loads_all_unless_told() -> None:
    assert context(gpu="B200") == overhead.CONTEXT
    assert context(gpu="B200", cuda_module_loading="eager").low > overhead.CONTEXT.low

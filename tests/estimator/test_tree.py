"""The tree of a stage adds up to what the estimate says of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.estimator.jobs import megatron_plan, plans
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.requests.parameters import PipelineParameters
from trainfit.estimator.local_parameters import ParameterTable, divided_model
from trainfit.estimator.peak import chunk_activations
from trainfit.estimator.placement import place
from trainfit.estimator.run import run_of
from trainfit.estimator.tree import Module, module_tree
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.job import Job

MODELS = (
    "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen2-VL-7B-Instruct",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "ai21labs/Jamba-v0.1",
    "google/gemma-2-2b",
    "gpt2",
)


def assert_adds_up(module: Module) -> None:
    """Every module with parts that are not left out is the sum of them."""
    if module.children:
        for name in ("parameters", "parameters_per_gpu", "saved_bytes"):
            parts = sum(getattr(child, name) for child in module.children)
            assert getattr(module, name) == parts, (module.name, name)
    for child in module.children:
        assert_adds_up(child)


def assert_agrees(plan: MegatronPlan) -> None:
    """Every stage's tree has the parameters of its states and saves what its chunks do."""
    table, ledger = ParameterTable(divided_model(plan)), MegatronLedger(run_of(plan))
    for rank, placements in enumerate(place(plan)):
        tree = module_tree(plan, rank)
        assert_adds_up(tree)
        contents = [placement.content for placement in placements]
        local = [table.chunk(content).all for content in contents]
        assert tree.parameters == sum(each.whole for each in local)
        assert tree.parameters_per_gpu == sum(each.dense + each.expert for each in local)
        assert tree.saved_bytes == sum(chunk_activations(ledger, each).saved for each in contents)


@given(plans())
def test_random_jobs(plan: MegatronPlan) -> None:
    assert_agrees(plan)


@given(plans())
@settings(max_examples=30)
def test_parameters_one_after_the_other_are_all_that_a_chunk_has(plan: MegatronPlan) -> None:
    table = ParameterTable(divided_model(plan))
    ordered = PipelineParameters(table, (), words=False, head=False, frozen=False)
    for content in {each.content for placements in place(plan) for each in placements}:
        held = table.chunk(content).all
        assert sum(each.numel for each in ordered.of(content)) == held.dense + held.expert


@pytest.mark.parametrize("hf_id", MODELS)
@pytest.mark.parametrize("recompute", [{}, {"granularity": "full", "num_layers": 3}])
def test_bundled_models(hf_id: str, recompute: dict[str, object]) -> None:
    training = {"recompute": recompute}
    if recompute:
        training["mtp"] = {"num_layers": 0}
    job = {"model": {"hf_id": hf_id}, "training": training}
    assert_agrees(megatron_plan(Job.model_validate(job)))


def test_depths_that_repeat_one() -> None:
    """Their weights count once, and what each saves as often as there are depths."""
    repeated = {"name": "megatron", "mtp_use_repeated_layer": True}
    job = {"model": {"hf_id": MODELS[0]}, "training": {"mtp": {"num_layers": 2}}}
    assert_agrees(megatron_plan(Job.model_validate(job | {"framework": repeated})))


def test_chunks_and_runs_of_layers() -> None:
    job = Job.model_validate(
        {"model": {"hf_id": "deepseek-ai/DeepSeek-V3"}, "parallelism": {"pp": 16}}
        | {
            "parallelism": {
                "pp": 16,
                "ep": 8,
                "pipeline_model_parallel_layout": "Et*3|(tt|)*29m|L",
            }
        }
    )
    plan = megatron_plan(job)
    assert_agrees(plan)
    first = module_tree(plan, 0)
    assert [chunk.name for chunk in first.children] == ["chunk 0", "chunk 1"]
    assert [part.name for part in first.children[0].children] == [
        "embedding",
        "layers 0–2 x3 (mla + mlp)",
    ]
    assert [part.name for part in first.children[1].children] == ["layers 33–34 x2 (mla + moe)"]
    last = module_tree(plan, 15)
    assert [part.name for part in last.children[1].children] == ["head"]

"""Jobs of one question share what they have in common, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests import counting
from tests.estimator.jobs import jobs
from tests.layouts import DEEPSEEK_V3, deepseek_v3, layout
from trainfit.api.strict_json import parse_json
from trainfit.decisions.patch import apply, patch
from trainfit.estimator.estimate import estimate
from trainfit.estimator.memo import Memo, Memos
from trainfit.questions.compare import compare_jobs, read_comparison
from trainfit.questions.estimate import MEMOS, plan_of, price
from trainfit.questions.pricing import Pricing
from trainfit.questions.wire import to_json
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job
from trainfit.specs.several import CompareRequest

JOB = Job.model_validate(
    {
        "model": DEEPSEEK_V3,
        "parallelism": {
            "num_gpus": 2048,
            "tp": 2,
            "pp": 16,
            "ep": 16,
            "num_layers_in_last_pipeline_stage": 1,
        },
    }
)
CHANGES: tuple[dict[str, Any], ...] = (
    {"/parallelism/num_gpus": 4096},
    {"/parallelism/tp": 4},
    {"/parallelism/pp": 8, "/parallelism/num_layers_in_last_pipeline_stage": 5},
    {"/parallelism": {"pp": 8, "ep": 16, "pipeline_model_parallel_layout": layout(16)}},
    {"/parallelism/cp": 2},
    {"/parallelism/cp": 2, "/parallelism/cp_comm_type": "all_gather"},
    {"/parallelism/ep": 32},
    {"/parallelism/ep": 256, "/parallelism/etp": 1, "/parallelism/num_gpus": 4096},
    {"/parallelism/etp": 1},
    {"/parallelism/data_parallel_sharding_strategy": "no_shard"},
    {"/parallelism/pipeline_schedule": "gpipe"},
    {"/training/micro_batch_size": 2},
    {"/training/num_microbatches": 3},
    {"/training/seq_length": 8192},
    {"/training/precision": "fp8"},
    {"/training/mtp": {"num_layers": 0}},
    {"/training/recompute": {"granularity": "selective", "modules": ["moe_act"]}},
    {"/training/recompute": {"granularity": "full"}},
    {"/training/moe/token_dispatcher_type": "allgather"},
    {"/training/moe/token_dispatcher_type": "allgather", "/parallelism/ep": 32},
    {"/training/moe/expert_capacity_factor": 1.0},
    {"/framework/gradient_accumulation_fusion": False},
    {"/framework/gradient_accumulation_fusion": False, "/parallelism/ep": 32},
    {"/framework/make_vocab_size_divisible_by": 256},
    {
        "/framework": {"name": "torchtitan"},
        "/parallelism": {"num_gpus": 64, "pp": 2, "ep": 8},
        "/training/mtp": {"num_layers": 0},
    },
    {"/model/hf_id": "moonshotai/Kimi-K2-Base"},
    {"/gpu": "A100-80GB"},
)


def changed(job: Job, values: dict[str, Any]) -> Job:
    return apply(job, patch(job, values))


@pytest.mark.parametrize("values", CHANGES, ids=lambda values: json.dumps(values)[1:-1])
def test_a_job_beside_another_is_priced_as_if_it_were_alone(values: dict[str, Any]) -> None:
    both = (JOB, changed(JOB, values))
    for order in (both, both[::-1]):
        pricing = Pricing()
        for job in order:
            assert pricing.needs(job) == Pricing().needs(job)
            assert pricing.estimate(job) == price(job)


LORA = {
    "model": {"hf_id": "Qwen/Qwen3-8B"},
    "parallelism": {"num_gpus": 8},
    "training": {"peft": {"method": "lora"}, "precision": "bf16-pure", "seq_length": 2048},
    "framework": {"name": "transformers"},
}
OF_PYTORCH: tuple[dict[str, Any], ...] = (
    {"/training/peft": None},
    {"/training/peft": None, "/training/num_frozen_layers": 12},
    {"/training/peft": None, "/training/num_frozen_layers": 12, "/training/frozen": ["lm_head"]},
    {"/training/peft": {"method": "prompt_tuning", "num_virtual_tokens": 20}},
    {"/training/peft": {"method": "p_tuning", "num_virtual_tokens": 20}},
    {"/training/peft": {"method": "prefix_tuning", "num_virtual_tokens": 20}},
    {"/training/peft/r": 16},
    {"/training/peft/quantization": "nf4", "/training/precision": "autocast-bf16"},
    {"/training/peft/base_dtype": "fp32", "/training/precision": "autocast-bf16"},
    {"/parallelism/data_parallel_sharding_strategy": "optim_grads_params"},
    {"/parallelism/data_parallel_sharding_strategy": "optim_grads_params", "/parallelism/cp": 2},
    {"/parallelism/tp": 2},
    {"/training/recompute": {"granularity": "full"}},
    {"/training/seq_length": 4096},
)


@pytest.mark.parametrize("values", OF_PYTORCH, ids=lambda values: json.dumps(values)[1:-1])
def test_a_job_of_pytorch_beside_another_is_priced_as_if_it_were_alone(
    values: dict[str, Any],
) -> None:
    job = Job.model_validate(LORA)
    both = (job, changed(job, values))
    for order in (both, both[::-1]):
        pricing = Pricing()
        for each in order:
            assert pricing.needs(each) == Pricing().needs(each)
            assert pricing.estimate(each) == price(each)
    assert price(both[0]) != price(both[1])


def test_stages_alike_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in calls: sixteen stages cost less than twice as much as four. No memo is kept from
    before, and what a process keeps for good is there for both, whatever other tests asked for.
    """
    monkeypatch.setattr(MEMOS, "current", Memo)

    def stages(pp: int) -> int:
        job = {
            "model": {"hf_id": "meta-llama/Llama-3.1-70B"},
            "parallelism": {"num_gpus": 128, "tp": 8, "pp": pp},
            "framework": {"name": "torchtitan"},
        }
        parsed = Job.model_validate(job)
        price(parsed)
        return calls(lambda: price(parsed))

    assert stages(16) < 2 * stages(4)


@given(st.data())
@settings(max_examples=30)
def test_random_jobs_of_one_model(data: st.DataObject) -> None:
    pricing = Pricing()
    first = data.draw(jobs())
    pricing.needs(first)
    for values in data.draw(st.lists(st.sampled_from(CHANGES[:-2]), min_size=1, max_size=4)):
        try:
            job = changed(first, values)
            alone = price(job)
        except (RefusedError, ValidationError):
            assume(False)
        assert pricing.estimate(job) == alone


def test_needs_are_those_of_the_estimate() -> None:
    needs, estimate = Pricing().needs(JOB), price(JOB)
    assert needs.parallelism == estimate.parallelism
    assert needs.binding == estimate.binding
    assert needs.warnings == estimate.warnings
    for mine, stage in zip(needs.stages, estimate.stages, strict=True):
        assert mine.sizes == tuple(each.bytes for each in stage.components)
        assert mine.largest == stage.binding_component
        assert mine.device_bytes == stage.device_bytes


@pytest.mark.parametrize("vpp", [1, 2])
@pytest.mark.parametrize("pp", [4, 8, 16])
def test_many_layouts_cost_less_than_as_many_alone(
    pp: int, vpp: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in calls of functions, which no other load of the machine changes. Nothing is known
    from before, and no allocator replayed.
    """
    monkeypatch.setattr(MEMOS, "current", Memo)
    many = list(deepseek_v3(pp, vpp))
    together = calls(lambda: _compare(many))
    alone = min(calls(lambda job=job: _compare([job])) for job in many[::7])  # type: ignore[misc]
    assert len(many) == 64
    assert together < 40 * alone


def test_a_memo_that_is_full_makes_way_for_an_empty_one() -> None:
    memos = Memos(max_results=2)
    first = memos.current()
    made = []

    def double(number: int) -> int:
        made.append(number)
        return 2 * number

    for number in (1, 2, 3, 1):
        assert memos.current() is first or len(first) > 2
        assert first(double, number) == 2 * number
    assert len(memos.current()) == 0
    assert made == [1, 2, 3]


@given(jobs())
@settings(max_examples=30)
def test_what_was_asked_before_changes_no_answer(job: Job) -> None:
    try:
        plan = plan_of(job)
    except RefusedError:
        return
    assert price(job) == price(job) == estimate(plan)


def _compare(jobs: list[dict[str, Any]]) -> bytes:
    named = [{"id": str(number), "job": job} for number, job in enumerate(jobs)]
    body = json.dumps({"jobs": named, "replay": False}).encode()
    request = CompareRequest.model_validate(parse_json(body))
    return to_json(compare_jobs(request, read_comparison(request), lambda *_: None))


def calls(work: Callable[[], object]) -> int:
    """How many functions the work calls once everything is loaded."""
    work()
    return counting.calls(work, lambda *_: True)

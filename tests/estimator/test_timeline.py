"""The timeline of a step has the peak that the estimate tells, and ends where it began."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

from tests.estimator.jobs import megatron_plan, plans
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.peak import chunk_activations, stage_peak
from trainfit.estimator.placement import place
from trainfit.estimator.schedule import order_of, warm_up
from trainfit.estimator.timeline import Timeline
from trainfit.questions.estimate import plan_of
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job


def timelines(plan: Plan) -> list[Timeline]:
    framework = framework_of(plan)
    found = [framework.timeline(plan, rank) for rank in range(plan.layout.pipeline.pp)]
    return [each for each in found if each is not None]


def job(**parts: Any) -> Job:
    return Job.model_validate({"model": {"hf_id": "meta-llama/Llama-3.1-8B"}} | parts)


@given(plans())
def test_the_highest_pass_is_the_peak_of_the_schedule(plan: Plan) -> None:
    ledger = framework_of(plan).ledger(plan)
    pipeline, m = plan.layout.pipeline, plan.batch.num_microbatches
    for rank, told in enumerate(timelines(plan)):
        placed = place(plan)[rank]
        chunks = [chunk_activations(ledger, each.content) for each in placed]
        firsts = [each.layers.start for each in placed]
        order = order_of(pipeline, m, rank)
        peak = stage_peak(pipeline, m, order, ledger.sizes.act, chunks, firsts)
        assert max(each.highest_bytes for each in told.passes) == peak.total


@given(plans())
def test_what_is_kept_is_given_back(plan: Plan) -> None:
    for told in timelines(plan):
        assert told.passes[-1].kept_bytes == 0
        assert all(0 <= each.kept_bytes <= each.highest_bytes for each in told.passes)


@given(plans())
def test_passes_are_in_order(plan: Plan) -> None:
    pipeline, m = plan.layout.pipeline, plan.batch.num_microbatches
    for rank, told in enumerate(timelines(plan)):
        ordinals = [each.ordinal for each in told.passes]
        assert all(a < b for a, b in pairwise(ordinals))
        assert ordinals[-1] == told.count - 1
        phases = [each.phase for each in told.passes]
        ahead = warm_up(pipeline, m, rank)
        assert phases.count("warm_up") == min(ahead, m * pipeline.vpp - 1)
        assert phases == sorted(phases, key=["warm_up", "steady", "cool_down"].index)


def test_every_micro_batch_goes_there_and_back_once() -> None:
    layout = {"num_gpus": 8, "pp": 4, "vpp": 2}
    plan = megatron_plan(job(parallelism=layout, training={"num_microbatches": 8}))
    for told in timelines(plan):
        runs = [(each.vpp_rank, each.microbatch, each.direction) for each in told.passes]
        assert len(runs) == told.count == len(set(runs)) == 2 * 2 * 8
        for chunk, microbatch, direction in runs:
            if direction == "backward":
                ahead = runs.index((chunk, microbatch, "forward"))
                assert ahead < runs.index((chunk, microbatch, "backward"))


def test_a_long_steady_state_is_told_by_its_cycles() -> None:
    layout = {"num_gpus": 8, "pp": 4, "vpp": 2}
    plan = megatron_plan(job(parallelism=layout, training={"num_microbatches": 4000}))
    for told in timelines(plan):
        assert told.count == 16_000
        assert len(told.passes) < 100
        gaps = [
            b.ordinal - a.ordinal for a, b in pairwise(told.passes) if b.ordinal > a.ordinal + 1
        ]
        assert len(gaps) == 1
        assert (gaps[0] - 1) % (2 * 4 * 2) == 0


def test_gpipe_runs_every_forward_first() -> None:
    layout = {"num_gpus": 4, "pp": 4, "pipeline_schedule": "gpipe"}
    plan = plan_of(job(parallelism=layout, training={"num_microbatches": 6}))
    for told in timelines(plan):
        assert [each.direction for each in told.passes] == ["forward"] * 6 + ["backward"] * 6


@pytest.mark.parametrize("schedule", ["zb-h1", "dualpipe"])
def test_a_schedule_known_by_its_bound_has_no_timeline(schedule: str) -> None:
    plan = plan_of(job(parallelism={"num_gpus": 4, "pp": 4, "pipeline_schedule": schedule}))
    assert timelines(plan) == []


def test_a_timeline_that_is_too_long_is_not_told() -> None:
    layout = {"num_gpus": 4, "pp": 4, "pipeline_schedule": "gpipe"}
    plan = plan_of(job(parallelism=layout, training={"num_microbatches": 100_000}))
    assert timelines(plan) == []

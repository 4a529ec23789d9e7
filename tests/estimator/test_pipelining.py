"""Pipelines of PyTorch: the orders of their ranks, and what a rank holds meanwhile."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from operator import mul
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfit.estimator.frameworks.pytorch import loads as module
from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.estimator.frameworks.pytorch.loads import WIDTH, fewest_alike, loads
from trainfit.estimator.frameworks.pytorch.schedules import Action, order
from trainfit.estimator.frameworks.pytorch.timeline import timeline
from trainfit.estimator.placement import held_by
from trainfit.estimator.timeline import LONG_TURNS, Timeline
from trainfit.questions.estimate import answer, plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.plan import Pipeline
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job
from trainfit.specs.parallelism import SPLIT_BACKWARD

SPEC = {
    "num_layers": 48,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 128,
    "position_embedding_type": "rope",
    "swiglu": True,
    "normalization": "RMSNorm",
}
CHUNKS = {
    "1f1b": (1,),
    "gpipe": (1,),
    "interleaved": (2, 3),
    "looped-bfs": (2, 3),
    "interleaved-zb": (2, 3),
    "zb-v": (2,),
    "dualpipe-v": (2,),
}


def job(schedule: str, pp: int, vpp: int, microbatches: int, **parts: Any) -> Job:
    layout = {"pp": pp, "vpp": vpp, "pipeline_schedule": schedule}
    training = {"num_microbatches": microbatches, "seq_length": 64} | parts.pop("training", {})
    return Job.model_validate(
        {
            "model": {"spec": SPEC},
            "parallelism": layout | parts.pop("parallelism", {}),
            "training": training,
            "framework": {"name": "torchtitan"} | parts,
        }
    )


def plan(schedule: str, pp: int, vpp: int, microbatches: int, **parts: Any) -> PytorchPlan:
    made = plan_of(job(schedule, pp, vpp, microbatches, **parts))
    assert isinstance(made, PytorchPlan)
    return made


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[Pipeline, int]:
    """A pipeline, and a number of micro-batches that it runs."""
    schedule = draw(st.sampled_from(sorted(CHUNKS)))
    pp, vpp = draw(st.sampled_from([2, 3, 4])), draw(st.sampled_from(CHUNKS[schedule]))
    microbatches = pp * draw(st.integers(2, 6))
    return plan(schedule, pp, vpp, microbatches).layout.pipeline, microbatches


@given(pipelines())
def test_every_micro_batch_goes_there_and_back_once(run: tuple[Pipeline, int]) -> None:
    pipeline, m = run
    for rank in range(pipeline.pp):
        actions = list(order(pipeline, m, rank))
        assert max(Counter(actions).values()) == 1
        for chunk in range(pipeline.vpp):
            for microbatch in range(m):
                runs = [each[0] for each in actions if each[1:] == (chunk, microbatch)]
                assert runs in (
                    ["forward", "backward"],
                    ["forward", "backward_for_inputs", "backward_for_weights"],
                )
        split = any(each.direction == "backward_for_inputs" for each in actions)
        assert split == (pipeline.schedule in SPLIT_BACKWARD)


@given(pipelines())
def test_the_ranks_of_a_pipeline_do_not_wait_for_each_other_for_ever(
    run: tuple[Pipeline, int],
) -> None:
    """Run together, each rank in its order, every action finds what it needs."""
    pipeline, m = run
    last = pipeline.pp * pipeline.vpp - 1
    waiting = [list(order(pipeline, m, rank)) for rank in range(pipeline.pp)]
    done: set[tuple[str, int, int]] = set()

    def is_ready(action: Action, stage: int) -> bool:
        if action.direction == "forward":
            return stage == 0 or ("forward", stage - 1, action.microbatch) in done
        if action.direction == "backward_for_weights":
            return True
        return stage == last or ("backward", stage + 1, action.microbatch) in done

    while any(waiting):
        before = len(done)
        for rank, actions in enumerate(waiting):
            while actions:
                action = actions[0]
                stage = held_by(pipeline, rank)[action.chunk]
                if not is_ready(action, stage):
                    break
                kind = "backward" if "backward" in action.direction else "forward"
                if action.direction == "backward_for_weights":
                    kind = "weights"
                done.add((kind, stage, action.microbatch))
                actions.pop(0)
        assert len(done) > before


@given(
    pipelines(),
    st.lists(st.integers(0, 100), min_size=3 * WIDTH, max_size=3 * WIDTH),
    st.data(),
)
def test_loads_hold_the_highest_state(
    run: tuple[Pipeline, int], sizes: list[int], data: st.DataObject
) -> None:
    """Whatever a chunk weighs, the loads that are looked at have the most that a rank holds at any
    action of a step of any length.
    """
    pipeline, m = run
    rank = data.draw(st.integers(0, pipeline.pp - 1))
    sizes = sizes[: WIDTH * pipeline.vpp]
    found = loads(pipeline, m, rank)
    with (
        patch.object(module, "shown_microbatches", lambda _, microbatches: microbatches),
        patch.object(module, "FIRST_TIMES", m * pipeline.vpp),
    ):
        everything = loads(pipeline, m, rank)
    assert len(everything.part) == sum(1 for _ in order(pipeline, m, rank)) + pipeline.vpp
    assert found.in_flight == everything.in_flight
    assert found.left == everything.left
    assert loads(pipeline, fewest_alike(pipeline, m), rank) == found
    for part in everything.parts:
        highest = [each.highest(sizes, {part: 0}).counts for each in (found, everything)]
        first, second = (sum(map(mul, counts, sizes)) for counts in highest)
        assert first == second


def test_of_equal_loads_the_first_that_none_exceeds_is_told() -> None:
    """Three are in flight at every forward behind the warm-up, where from the second on there are
    gradients as well.
    """
    pipeline = plan("1f1b", 4, 1, 64).layout.pipeline
    sizes = [0] * WIDTH
    sizes[0] = 1
    load = loads(pipeline, 64, 0).highest(sizes, {("forward", 0): 0})
    assert load.action == Action("forward", 0, 4)
    assert load.counts[0] == 3


@pytest.mark.parametrize(
    ("schedule", "vpp", "microbatches", "expected"),
    [
        ("1f1b", 1, 64, [4, 3, 2, 1]),
        ("gpipe", 1, 64, [64, 64, 64, 64]),
        ("interleaved", 2, 64, [11, 9, 7, 5]),
        ("looped-bfs", 2, 64, [128, 128, 128, 128]),
        ("interleaved-zb", 2, 64, [8, 8, 8, 8]),
        ("zb-v", 2, 64, [8, 8, 8, 8]),
        ("dualpipe-v", 2, 64, [9, 9, 9, 9]),
    ],
)
def test_micro_batches_in_flight(
    schedule: str, vpp: int, microbatches: int, expected: list[int]
) -> None:
    stages = answer(job(schedule, 4, vpp, microbatches)).stages
    assert [stage.microbatches_in_flight for stage in stages] == expected


def test_a_buffer_stands_for_what_each_micro_batch_receives() -> None:
    """Twice [n', h] for a stage in the middle, once for the first, for every micro-batch."""
    hidden = 2 * 64 * 64

    def buffers(microbatches: int, rank: int) -> int:
        stage = answer(job("1f1b", 4, 1, microbatches)).stages[rank]
        return {part.name: part.bytes for part in stage.components}["framework_buffers"]

    assert buffers(32, 0) - buffers(16, 0) == 16 * hidden
    assert buffers(32, 1) - buffers(16, 1) == 2 * 16 * hidden


def timelines(made: PytorchPlan) -> list[Timeline]:
    found = [timeline(PytorchLedger(made), rank) for rank in range(made.layout.pipeline.pp)]
    return [each for each in found if each is not None]


@given(pipelines())
def test_what_is_kept_is_given_back(run: tuple[Pipeline, int]) -> None:
    pipeline, m = run
    for told in timelines(plan(pipeline.schedule, pipeline.pp, pipeline.vpp, m)):
        assert told.passes[-1].kept_bytes == 0
        assert all(each.kept_bytes >= 0 for each in told.passes)
        ordinals = [each.ordinal for each in told.passes]
        assert all(a < b for a, b in pairwise(ordinals))
        assert ordinals[-1] == told.count - 1
        phases = [each.phase for each in told.passes]
        assert phases == sorted(phases, key=["warm_up", "steady", "cool_down"].index)


@pytest.mark.parametrize("schedule", [each for each in CHUNKS if "bfs" not in each])
def test_a_long_timeline_leaves_out_its_middle(schedule: str) -> None:
    vpp = CHUNKS[schedule][0]
    m = 2 * LONG_TURNS
    made = plan(schedule, 4, vpp, m)
    for rank, told in enumerate(timelines(made)):
        assert told.count == len(list(order(made.layout.pipeline, m, rank)))
        if schedule != "gpipe":
            assert len(told.passes) < told.count
        assert {each.microbatch for each in told.passes} >= {0, m - 1}


def test_a_timeline_of_all_forwards_first_that_is_too_long_is_not_told() -> None:
    assert timelines(plan("looped-bfs", 4, 2, 4096)) == []


def refusal(schedule: str, vpp: int, microbatches: int, **parts: Any) -> str:
    with pytest.raises(RefusedError) as refused:
        plan(schedule, 4, vpp, microbatches, **parts)
    return str(refused.value)


def test_what_pytorch_does_not_run_is_refused() -> None:
    assert "needs 4 micro-batches or more, not 3" in refusal("1f1b", 1, 3)
    assert "needs 8 micro-batches or more, not 7" in refusal("dualpipe-v", 2, 7)
    assert "9 micro-batches do not divide into 2 rounds" in refusal("interleaved", 2, 9)
    assert "looped-bfs needs vpp > 1" in refusal("looped-bfs", 1, 8)
    group = {"microbatch_group_size_per_vp_stage": 8}
    assert "from the number of micro-batches" in refusal("interleaved", 2, 8, parallelism=group)


@pytest.mark.parametrize("schedule", SPLIT_BACKWARD)
def test_a_backward_in_two_goes_with_whole_checkpoints_or_none(schedule: str) -> None:
    whole = {"recompute": {"granularity": "full"}}
    assert answer(job(schedule, 4, 2, 8, training=whole)).stages
    selective = {"recompute": {"granularity": "selective"}}
    assert "selective checkpointing" in refusal(schedule, 2, 8, training=selective)
    assert "compiled modules" in refusal(schedule, 2, 8, compile=True)
    assert "with adapters" in refusal(schedule, 2, 8, training={"peft": {"method": "lora"}})
    assert "with frozen weights" in refusal(schedule, 2, 8, training={"num_frozen_layers": 1})


def test_ten_micro_batches_over_four_ranks_run_in_rounds_of_five() -> None:
    stages = answer(job("interleaved", 4, 2, 10)).stages
    assert [stage.microbatches_in_flight for stage in stages] == [12, 10, 8, 6]

"""Chunk-forwards in flight, against a schedule run step by step."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfit.estimator.schedule import in_flight, order_of, telling_microbatches, warm_up
from trainfit.questions.estimate import answer, plan_of
from trainfit.resolve.plan import Pipeline
from trainfit.specs.job import Job

SPEC = {
    "num_layers": 96,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 128,
    "position_embedding_type": "rope",
}


def pipeline(pp: int, vpp: int, **others: str) -> Pipeline:
    layout = {"pp": pp, "vpp": vpp, **others}
    plan = plan_of(Job.model_validate({"model": {"spec": SPEC}, "parallelism": layout}))
    return plan.layout.pipeline


@pytest.mark.parametrize(
    ("pp", "vpp", "expected"),
    [(4, 1, [4, 3, 2, 1]), (4, 2, [11, 9, 7, 5]), (2, 3, [7, 5]), (1, 1, [1])],
)
def test_in_flight(pp: int, vpp: int, expected: list[int]) -> None:
    """1F1B: p - r; interleaved: 2 (p - r - 1) + (v - 1) G + 1."""
    assert [in_flight(pipeline(pp, vpp), 64, rank) for rank in range(pp)] == expected


def test_few_microbatches_cap_what_is_in_flight() -> None:
    assert [in_flight(pipeline(4, 1), 2, rank) for rank in range(4)] == [2, 2, 2, 1]


def executed(of: Pipeline, m: int, rank: int) -> list[tuple[tuple[int, ...], int, int]]:
    """State before every turn after the warm-up, by running all of the schedule's steps."""
    v, group = of.vpp, of.microbatch_group_size
    order = [
        chunk
        for first in range(0, m, group)
        for chunk in range(v)
        for _ in range(min(group, m - first))
    ]
    live = [0] * v
    states = []
    start = warm_up(of, m, rank)
    for chunk in order[:start]:
        live[chunk] += 1
    for turn, chunk in enumerate(order[start:]):
        undone = v - 1 - order[turn]
        states.append((tuple(live), chunk, undone))
        live[chunk] += 1
        live[undone] -= 1
    return states


@given(
    pp=st.sampled_from([2, 3, 4]),
    vpp=st.sampled_from([1, 2, 4]),
    groups=st.integers(3, 6),
    sizes=st.lists(st.integers(0, 100), min_size=4, max_size=4),
    data=st.data(),
)
def test_turns_show_the_highest_state(
    pp: int, vpp: int, groups: int, sizes: list[int], data: st.DataObject
) -> None:
    """Whatever the chunks weigh, the turns that are looked at hold the maximum over all turns."""
    rank = data.draw(st.integers(0, pp - 1))
    of, m = pipeline(pp, vpp), pp * groups

    def weigh(before: tuple[int, ...], forward: int) -> int:
        return sum(c * s for c, s in zip(before, sizes, strict=False)) + sizes[forward]

    all_turns = [weigh(before, forward) for before, forward, _ in executed(of, m, rank)]
    seen = [turn.live + sizes[turn.forward] for turn in order_of(of, m, rank).turns(sizes)]
    assert max(seen) == max(all_turns)


def test_a_larger_group_holds_more() -> None:
    of = pipeline(4, 2)
    wide = replace(of, microbatch_group_size=8)
    assert in_flight(wide, 64, 0) == in_flight(of, 64, 0) + 4


@pytest.mark.parametrize(
    ("schedule", "vpp", "expected"),
    [
        ("gpipe", 1, [64, 64, 64, 64]),
        ("zb-h1", 1, [4, 4, 4, 4]),
        ("zb-h2", 1, [7, 7, 7, 7]),
        ("zb-v", 2, [8, 8, 8, 8]),
        ("dualpipe", 1, [5, 5, 5, 5]),
        ("dualpipe-v", 2, [9, 9, 9, 9]),
    ],
)
def test_other_schedules_hold_what_their_papers_say(
    schedule: str, vpp: int, expected: list[int]
) -> None:
    of = pipeline(4, vpp, pipeline_schedule=schedule)
    assert [in_flight(of, 64, rank) for rank in range(4)] == expected


def test_dualpipe_holds_the_model_twice_and_a_v_once() -> None:
    def parameters(schedule: str) -> int:
        job = {"model": {"spec": SPEC}, "parallelism": {"pp": 4, "pipeline_schedule": schedule}}
        stages = answer(Job.model_validate(job)).stages
        return sum(stage.components[0].parameter_count for stage in stages)

    copy_of_head = 64 * 128
    assert parameters("dualpipe") == 2 * (parameters("1f1b") - copy_of_head)
    assert parameters("dualpipe-v") == parameters("1f1b") - copy_of_head


@given(
    pp=st.sampled_from([1, 2, 4]),
    vpp=st.sampled_from([1, 2, 3]),
    m=st.integers(1, 64),
    data=st.data(),
)
def test_more_microbatches_than_tell_are_run_as_those(
    pp: int, vpp: int, m: int, data: st.DataObject
) -> None:
    of = pipeline(pp, vpp if pp > 1 else 1)
    rank, telling = data.draw(st.integers(0, pp - 1)), telling_microbatches(of, m)
    assert telling <= min(m, 3 * pp + 3)
    assert order_of(of, telling, rank) == order_of(of, m, rank)
    assert in_flight(of, telling, rank) == in_flight(of, m, rank)

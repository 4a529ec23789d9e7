"""Bubbles are what the orders of the schedules leave, run through pass by pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfit.estimator.frameworks.pytorch.schedules import BACKWARD, FOR_WEIGHTS, FORWARD, order
from trainfit.resolve.plan import Pipeline
from trainfit.specs.parallelism import PipelineSchedule
from trainfit.steptime.bubbles import PassSeconds, bubble

V_SHAPED = ("zb-v", "dualpipe-v")
CHUNKS: dict[PipelineSchedule, Sequence[int]] = {
    "1f1b": (1,),
    "gpipe": (1,),
    "interleaved": (2, 4),
    "looped-bfs": (2, 3),
    "interleaved-zb": (2, 3),
    "zb-v": (2,),
    "dualpipe-v": (2,),
}
LAYOUTS = [
    (schedule, v, pp, m)
    for schedule, chunks in CHUNKS.items()
    for v, (pp, m) in product(chunks, ((2, 8), (4, 8), (4, 32), (8, 32)))
]


def pipeline_of(schedule: PipelineSchedule, v: int, pp: int) -> Pipeline:
    return Pipeline(pp, v, schedule, (), pp)


def stage_of(pipeline: Pipeline, rank: int, chunk: int) -> int:
    """The virtual stage of a rank's chunk."""
    if pipeline.schedule in V_SHAPED and chunk:
        return 2 * pipeline.pp - 1 - rank
    return chunk * pipeline.pp + rank


def run_through(pipeline: Pipeline, ranks: Sequence[PassSeconds], m: int) -> float:
    """Seconds of a step in which every rank runs its passes in its order, each as soon as the
    neighbour's that it needs is done.
    """
    last = pipeline.pp * pipeline.vpp - 1
    orders = [list(order(pipeline, m, rank)) for rank in range(pipeline.pp)]
    ended: dict[tuple[bool, int, int], float] = {(True, -1, each): 0.0 for each in range(m)}
    clocks = [0.0] * pipeline.pp
    while any(orders):
        left = sum(map(len, orders))
        for rank, mine in enumerate(orders):
            forward, backward, weights = (each / pipeline.vpp for each in ranks[rank])
            while mine:
                direction, chunk, each = mine[0]
                stage = stage_of(pipeline, rank, chunk)
                ahead = direction == FORWARD
                turns = stage == last and not ahead
                needs = (
                    (True, stage, each) if turns else (ahead, stage + (-1 if ahead else 1), each)
                )
                if direction == FOR_WEIGHTS:
                    clocks[rank] += weights
                elif needs in ended:
                    whole = backward if direction == BACKWARD else backward - weights
                    clocks[rank] = max(clocks[rank], ended[needs]) + (forward if ahead else whole)
                    ended[ahead, stage, each] = clocks[rank]
                else:
                    break
                mine.pop(0)
        assert sum(map(len, orders)) < left, "no rank can go on"
    return max(clocks)


def told(pipeline: Pipeline, ranks: Sequence[PassSeconds], m: int) -> float:
    slowest = max(each.forward + each.backward for each in ranks)
    return m * slowest + bubble(pipeline, ranks, m)


@pytest.mark.parametrize(("schedule", "v", "pp", "m"), LAYOUTS)
def test_equal_stages_idle_as_their_order_has_it(
    schedule: PipelineSchedule, v: int, pp: int, m: int
) -> None:
    pipeline, ranks = pipeline_of(schedule, v, pp), [PassSeconds(1.0, 2.0, 1.0)] * pp
    assert told(pipeline, ranks, m) == pytest.approx(run_through(pipeline, ranks, m))


@pytest.mark.parametrize(("schedule", "v", "pp", "m"), LAYOUTS)
@pytest.mark.parametrize("slow", ["first", "last"])
def test_a_slow_end_idles_as_its_order_has_it(
    schedule: PipelineSchedule, v: int, pp: int, m: int, slow: str
) -> None:
    """A head is most of what is not a layer."""
    ranks = [PassSeconds(1.0, 2.0, 1.0)] * pp
    ranks[0 if slow == "first" else -1] = PassSeconds(1.2, 2.3, 1.1)
    pipeline = pipeline_of(schedule, v, pp)
    assert told(pipeline, ranks, m) == pytest.approx(run_through(pipeline, ranks, m), rel=0.06)


SECONDS = st.floats(0.7, 1.3)


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=4, max_size=4), st.sampled_from((4, 8, 16)))
def test_uneven_stages_of_one_forward_one_backward_idle_to_the_second(
    stages: list[tuple[float, float]], m: int
) -> None:
    ranks = [PassSeconds(forward, 2 * backward, backward) for forward, backward in stages]
    pipeline = pipeline_of("1f1b", 1, 4)
    assert told(pipeline, ranks, m) == pytest.approx(run_through(pipeline, ranks, m), rel=0.02)


def test_uneven_stages_of_other_schedules_idle_about_as_their_order_has_it() -> None:
    ratios = []
    for schedule, v, pp, m in LAYOUTS:
        for turn in range(pp):
            ranks = [PassSeconds(1.0, 2.0, 0.9)] * pp
            ranks[turn], ranks[-1] = PassSeconds(1.3, 2.2, 1.1), PassSeconds(0.8, 1.7, 0.8)
            pipeline = pipeline_of(schedule, v, pp)
            ratios.append(told(pipeline, ranks, m) / run_through(pipeline, ranks, m))
    assert median(ratios) == pytest.approx(1.0, abs=0.005)
    assert min(ratios) > 0.92
    assert max(ratios) < 1.08

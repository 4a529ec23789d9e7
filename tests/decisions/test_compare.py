"""Estimates side by side."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.decisions.compare import Comparison, NamedNeeds, compare
from trainfit.estimator.results import Needs
from trainfit.questions.pricing import Pricing
from trainfit.specs.job import Job


def needs(pp: int = 2, **training: Any) -> Needs:
    """Qwen3-8B on two stages, its allocator not replayed."""
    job = {"model": {"hf_id": "Qwen/Qwen3-8B"}, "parallelism": {"pp": pp}, "training": training}
    return Pricing().needs(Job.model_validate(job), replay=False)


PLAIN = needs()
LONGER = needs(seq_length=8192)
RECOMPUTED = needs(recompute={"granularity": "full", "method": "uniform", "num_layers": 1})
ONE_STAGE = needs(pp=1)


def compared(*jobs: Needs, baseline: Needs | None = PLAIN) -> list[Comparison]:
    candidates = [NamedNeeds(str(index), each, None, None) for index, each in enumerate(jobs)]
    return compare(candidates, baseline)


def test_differences_add_up() -> None:
    (longer,) = compared(LONGER)
    for stage, mine, base in zip(longer.stages, LONGER.stages, PLAIN.stages, strict=True):
        assert stage.difference_bytes == mine.device_bytes.expected - base.device_bytes.expected
        differences = [each.difference_bytes or 0 for each in stage.components]
        assert sum(differences) == stage.difference_bytes
        assert differences[0] == 0
    assert longer.difference_bytes is not None
    assert longer.difference_bytes > 0


def test_the_baseline_differs_by_nothing() -> None:
    (same,) = compared(PLAIN)
    assert same.difference_bytes == 0
    assert {each.difference_bytes for stage in same.stages for each in stage.components} == {0}


def test_without_a_baseline_there_are_no_differences() -> None:
    (alone,) = compared(PLAIN, baseline=None)
    assert alone.difference_bytes is None
    assert {each.difference_bytes for stage in alone.stages for each in stage.components} == {None}


def test_a_stage_that_the_baseline_lacks_has_no_difference() -> None:
    (longer,) = compared(LONGER, baseline=ONE_STAGE)
    assert longer.stages[0].difference_bytes is not None
    assert longer.stages[1].difference_bytes is None


@pytest.mark.parametrize("order", [(PLAIN, LONGER, RECOMPUTED), (RECOMPUTED, PLAIN, LONGER)])
def test_less_everywhere_dominates(order: tuple[Needs, ...]) -> None:
    names = {id(each): str(index) for index, each in enumerate(order)}
    dominated = dict(
        zip(map(id, order), [each.dominates for each in compared(*order)], strict=True)
    )
    assert set(dominated[id(RECOMPUTED)]) == {names[id(PLAIN)], names[id(LONGER)]}
    assert dominated[id(PLAIN)] == [names[id(LONGER)]]
    assert dominated[id(LONGER)] == []


def test_equal_jobs_and_other_pipelines_dominate_nothing() -> None:
    first, second, other = compared(PLAIN, PLAIN, ONE_STAGE)
    assert first.dominates == second.dominates == other.dominates == []

"""What runs on one GPU reported of their card, beside the replay of their requests."""

from __future__ import annotations

import json
from statistics import mean, median

import pytest

from tests.accuracy.outcomes import GIB
from tests.accuracy.test_corpus import DATA
from trainfit.estimator.allocator import CachingAllocator, Device, repeat, replay
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.pytorch.framework import trace
from trainfit.estimator.memo import Memo
from trainfit.estimator.overhead import CONTEXT
from trainfit.estimator.trace.recorder import Trace
from trainfit.questions.estimate import EstimateAnswer, answer, plan_of
from trainfit.questions.launches import read_asked
from trainfit.questions.problems import Problem
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

Errors = tuple[float, float]


def errors_of(line: str) -> Errors | None:
    """How far the device bytes of a run are from the replay and from the estimate, None where the
    row reports none or the order of its requests is not known.
    """
    row, plans = json.loads(line), list[PytorchPlan]()
    measured, asked = row["measured"].get("device_gib"), read_asked(row["ask"], Job)
    if measured is None or isinstance(asked, Problem):
        return None

    def estimated(job: Job, reading: object) -> EstimateAnswer:  # noqa: ARG001
        plan = plan_of(job)
        if isinstance(plan, PytorchPlan):
            plans.append(plan)
        return answer(job)

    if isinstance(asked.answered(estimated), Problem) or not plans:
        return None
    memo = Memo()
    recorded = trace(plans[-1], memo)
    if recorded is None:
        return None
    held = replayed(recorded, plans[-1]) + CONTEXT.expected
    expected = estimate(plans[-1], memo=memo).stages[0].device_bytes.expected
    return abs(held / GIB / measured - 1), abs(expected / GIB / measured - 1)


def replayed(recorded: Trace, plan: PytorchPlan) -> int:
    """The most bytes that are reserved in any step, on the card that the run had."""
    allocator = CachingAllocator(device=Device(plan.gpu.memory_bytes - CONTEXT.expected))
    replay(allocator, recorded.loaded)
    replay(allocator, recorded.first)
    assert repeat(allocator, recorded.later, 4).periodic
    return allocator.peak_reserved_bytes


@pytest.fixture(scope="module")
def errors() -> list[Errors]:
    lines = (DATA / "reported_runs_one_gpu.jsonl").read_text("utf-8").splitlines()
    return [each for each in map(errors_of, lines) if each is not None]


def test_the_replay_is_nearer_to_the_card_than_a_ratio(errors: list[Errors]) -> None:
    assert len(errors) >= 9
    by_replay, by_ratio = map(mean, zip(*errors, strict=True))
    assert by_replay < 0.025
    assert by_replay < by_ratio / 3


def test_the_replay_misses_no_run_by_far(errors: list[Errors]) -> None:
    """The farthest ran at the limit of its card, where the cache is given back at each step."""
    by_replay = sorted(each for each, _ in errors)
    assert median(by_replay) < 0.012
    assert by_replay[-2] < 0.04
    assert by_replay[-1] < 0.09

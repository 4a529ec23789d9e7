"""What runs under FullyShardedDataParallel reported of their cards, beside the estimate that
replays their requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

import pytest

from tests.accuracy.outcomes import Memory, memory
from tests.accuracy.test_corpus import DATA
from trainfit.estimator.frameworks.pytorch.framework import trace
from trainfit.estimator.memo import Memo
from trainfit.questions.estimate import answer, plan_of
from trainfit.questions.estimate_answer import EstimateAnswer
from trainfit.questions.launches import read_asked
from trainfit.questions.problems import Problem
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job


class Run(NamedTuple):
    """A run's figures beside their estimates, and its plan; `complete` where nothing is open."""

    name: str
    complete: bool
    allocated: Memory
    device: Memory
    answered: EstimateAnswer
    plan: PytorchPlan


def estimated() -> Iterator[Run]:
    lines = (DATA / "reported_runs_fsdp1.jsonl").read_text("utf-8").splitlines()
    for row in map(json.loads, lines):
        asked, jobs = read_asked(row["ask"], Job), list[Job]()
        assert not isinstance(asked, Problem), row["id"]

        def priced(job: Job, reading: object, jobs: list[Job] = jobs) -> EstimateAnswer:  # noqa: ARG001
            jobs.append(job)
            return answer(job)

        result = asked.answered(priced)
        assert isinstance(result, EstimateAnswer), row["id"]
        (stage,), measured, plan = result.stages, row["measured"], plan_of(jobs[-1])
        assert isinstance(plan, PytorchPlan)
        yield Run(
            row["id"],
            row["complete"],
            memory(measured["max_allocated_gib"], stage.allocated_bytes),
            memory(measured["device_gib"], stage.device_bytes),
            result,
            plan,
        )


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return list(estimated())


def test_a_trace_asks_for_as_much_as_the_ledger_says(runs: list[Run]) -> None:
    for run in runs:
        recorded = trace(run.plan, Memo())
        assert recorded is not None, run.name
        (stage,) = run.answered.stages
        assert recorded.peak_bytes == stage.allocated_bytes.expected, run.name
        assert stage.reserved_basis == "replayed", run.name


def test_tensors_are_what_was_allocated(runs: list[Run]) -> None:
    """The others have norms and positions fused in a way that no launch of theirs says."""
    complete = [abs(run.allocated.error_ratio) for run in runs if run.complete]
    assert len(complete) == 8
    assert median(complete) < 0.0001
    assert max(complete) < 0.006
    others = [abs(run.allocated.error_ratio) for run in runs if not run.complete]
    assert median(others) < 0.022
    assert max(others) < 0.04


def test_cards_hold_what_is_replayed(runs: list[Run]) -> None:
    """Contexts and communicators of these runs take a gigabyte more than is understood: the
    smallest are the farthest, and those that train all of a model are near.
    """
    errors = sorted(abs(run.device.error_ratio) for run in runs)
    assert median(errors) < 0.027
    assert errors[-1] < 0.1
    assert all(run.device.inside for run in runs)
    full = [abs(run.device.error_ratio) for run in runs if run.plan.step.adapters is None]
    assert len(full) == 7
    assert max(full) < 0.035

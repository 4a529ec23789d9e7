"""What runs on one GPU reported of their card, beside the estimate that replays their requests."""

from __future__ import annotations

import json
from statistics import median

import pytest

from tests.accuracy.outcomes import Memory, memory
from tests.accuracy.reported_runs import completed
from tests.accuracy.test_corpus import DATA
from trainfit.questions.estimate import answer
from trainfit.questions.estimate_answer import EstimateAnswer
from trainfit.questions.launches import read_asked
from trainfit.questions.problems import Problem
from trainfit.specs.job import Job


def device_bytes(line: str) -> Memory | None:
    """What a run's card held, and is estimated to. None where the row reports none, or the order of
    its requests is not known.
    """
    row = json.loads(line)
    measured, asked = row["measured"].get("device_gib"), read_asked(completed(row), Job)
    if measured is None or isinstance(asked, Problem):
        return None
    result = asked.answered(lambda job, reading: answer(job, reading=reading))
    if not isinstance(result, EstimateAnswer) or result.stages[0].reserved_basis != "replayed":
        return None
    return memory(measured, result.stages[0].device_bytes)


@pytest.fixture(scope="module")
def runs() -> list[Memory]:
    lines = (DATA / "reported_runs_one_gpu.jsonl").read_text("utf-8").splitlines()
    return [each for each in map(device_bytes, lines) if each is not None]


def test_cards_hold_what_is_replayed(runs: list[Memory]) -> None:
    """The farthest lacks one segment of its logits."""
    errors = sorted(abs(each.error_ratio) for each in runs)
    assert len(errors) >= 9
    assert errors[len(errors) // 2 - 1] < 0.008
    assert median(errors) < 0.009
    assert errors[-2] < 0.023
    assert errors[-1] < 0.11


def test_the_bounds_are_close_and_all_are_within(runs: list[Memory]) -> None:
    widths = [(each.high_bytes - each.low_bytes) / each.measured_bytes for each in runs]
    assert all(each.inside for each in runs)
    assert median(widths) < 0.09

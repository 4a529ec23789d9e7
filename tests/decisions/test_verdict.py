"""A verdict is drawn from the bounds of every stage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainfit.answer import answer
from trainfit.decisions.verdict import Verdict, verdict
from trainfit.estimator.results import Estimate, Interval
from trainfit.specs.job import Job


def estimate_of(*bounds: tuple[int, int], warnings: list[str]) -> Estimate:
    """An estimate whose stages need between these bounds."""
    answered = answer(Job.model_validate({"model": {"hf_id": "gpt2"}}))
    stages = [
        replace(answered.stages[0], device_bytes=Interval(low, (low + high) // 2, high))
        for low, high in bounds
    ]
    return replace(answered, stages=stages, warnings=warnings)


@pytest.mark.parametrize(
    ("bounds", "warnings", "expected"),
    [
        ([(50, 100), (60, 90)], [], "fits"),
        ([(50, 90), (60, 101)], [], "tight"),
        ([(100, 110)], [], "tight"),
        ([(101, 110), (1, 2)], [], "does_not_fit"),
        ([(50, 90)], ["something is not counted"], "unknown"),
        ([(101, 110)], ["something is not counted"], "does_not_fit"),
    ],
)
def test_the_bounds_decide(
    bounds: list[tuple[int, int]], warnings: list[str], expected: Verdict
) -> None:
    assert verdict(estimate_of(*bounds, warnings=warnings), 100) == expected

"""How close estimates of nanotron's benchmark are: 17 reserved peaks of first stages, of revisions
that are not known.
"""

from __future__ import annotations

from statistics import median

import pytest

from tests.accuracy.outcomes import Memory
from tests.accuracy.schemas import all_outcomes
from tests.accuracy.test_corpus import CORPUS
from trainfit.estimator.frameworks.nanotron.framework import HELD_PEAKS, MEASURED_PEAKS


@pytest.fixture(scope="module")
def peaks() -> dict[str, Memory]:
    return {
        outcome.id: outcome.figures
        for outcome in all_outcomes(CORPUS / "measured.jsonl")
        if outcome.id.startswith("nanotron") and isinstance(outcome.figures, Memory)
    }


def test_every_row_is_priced(peaks: dict[str, Memory]) -> None:
    assert len(peaks) == MEASURED_PEAKS


def test_errors(peaks: dict[str, Memory]) -> None:
    errors = [abs(each.error_ratio) for each in peaks.values()]
    assert median(errors) <= 0.085
    assert max(errors) <= 0.23


def test_all_but_two_lie_within_the_bounds(peaks: dict[str, Memory]) -> None:
    assert sum(each.inside for each in peaks.values()) == HELD_PEAKS
    outside = {name for name, each in peaks.items() if not each.inside}
    assert outside == {"nanotron-8.86B-32n", "nanotron-80B-32n"}

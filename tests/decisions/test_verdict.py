"""A verdict is drawn from the bounds of every stage."""

from __future__ import annotations

import pytest

from tests.decisions.questions import needing
from trainfit.decisions.verdict import Verdict, verdict


@pytest.mark.parametrize(
    ("bounds", "warnings", "headroom", "expected"),
    [
        ([(50, 100), (60, 90)], (), 0, "fits"),
        ([(50, 90), (60, 101)], (), 0, "tight"),
        ([(100, 110)], (), 0, "tight"),
        ([(101, 110), (1, 2)], (), 0, "does_not_fit"),
        ([(50, 90)], ("something is not counted",), 0, "unknown"),
        ([(101, 110)], ("something is not counted",), 0, "does_not_fit"),
        ([(50, 90)], (), 10, "fits"),
        ([(50, 91)], (), 10, "tight"),
        # Headroom is what the caller wants free: that the job does not fit is of the card.
        ([(95, 99)], (), 10, "tight"),
    ],
)
def test_the_bounds_decide(
    bounds: list[tuple[int, int]], warnings: tuple[str, ...], headroom: int, expected: Verdict
) -> None:
    assert verdict(needing(*bounds, warnings=warnings), 100, headroom) == expected

"""Whether a job fits a card: the one rule."""

from collections.abc import Iterable
from typing import Literal

from trainfit.estimator.results import Direction, Estimate, Needs

Verdict = Literal["fits", "tight", "does_not_fit", "unknown"]


def verdict(estimate: Estimate | Needs, usable_bytes: int, headroom_bytes: int = 0) -> Verdict:
    """fits: the high bound of every stage leaves the headroom free of what is usable of the card;
    does_not_fit: the low bound of some stage exceeds all that is usable; tight: between the two.
    unknown: it fits as far as it is counted, but something that needs memory is not counted.
    """
    if any(stage.device_bytes.low > usable_bytes for stage in estimate.stages):
        return "does_not_fit"
    if estimate.warnings:
        return "unknown"
    if all(stage.device_bytes.high <= usable_bytes - headroom_bytes for stage in estimate.stages):
        return "fits"
    return "tight"


def standing(found: Verdict, uncounted: Iterable[Direction]) -> Verdict:
    """What is left of a verdict beside what is not counted, which moves the peak in these
    directions, nobody knows how far: what fits still does where all of it only lowers the peak, and
    what does not fit where all of it only raises it.
    """
    directions = set(uncounted)
    if not directions:
        return found
    if (directions == {"lowers"} and found == "fits") or (
        directions == {"raises"} and found == "does_not_fit"
    ):
        return found
    return "unknown"

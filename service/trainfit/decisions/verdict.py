"""Whether a job fits a card: the one rule."""

from typing import Literal

from trainfit.estimator.results import Estimate, Needs

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

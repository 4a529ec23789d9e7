"""Whether a job fits a card."""

from typing import Literal

from trainfit.estimator.results import Estimate

Verdict = Literal["fits", "tight", "does_not_fit", "unknown"]


def verdict(estimate: Estimate, memory_bytes: int) -> Verdict:
    """fits: the high bound of every stage is within the card's memory; does_not_fit: the low bound
    of some stage exceeds it; tight: between the two. unknown: it fits as far as it is counted, but
    something that needs memory is not counted.
    """
    if any(stage.device_bytes.low > memory_bytes for stage in estimate.stages):
        return "does_not_fit"
    if estimate.warnings:
        return "unknown"
    if all(stage.device_bytes.high <= memory_bytes for stage in estimate.stages):
        return "fits"
    return "tight"

"""The time of a step: Plan -> seconds, from the ledger's own operations."""

from trainfit.steptime.results import Seconds, Step, StepParts, StepTime, Untimed
from trainfit.steptime.step import jitter_ratio, step_time
from trainfit.steptime.surroundings import Surroundings, surroundings, surroundings_on

__all__ = [
    "Seconds",
    "Step",
    "StepParts",
    "StepTime",
    "Surroundings",
    "Untimed",
    "jitter_ratio",
    "step_time",
    "surroundings",
    "surroundings_on",
]

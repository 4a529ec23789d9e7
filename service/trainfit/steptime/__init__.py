"""The time of a step: Plan -> seconds, from the ledger's own operations."""

from trainfit.steptime.results import Seconds, StepParts, StepTime, Untimed
from trainfit.steptime.step import Surroundings, step_time, surroundings

__all__ = [
    "Seconds",
    "StepParts",
    "StepTime",
    "Surroundings",
    "Untimed",
    "step_time",
    "surroundings",
]

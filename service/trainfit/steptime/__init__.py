"""The time of a step: Plan -> seconds, from the ledger's own operations."""

from trainfit.steptime.results import Seconds, StepParts, StepTime, Untimed
from trainfit.steptime.step import step_time

__all__ = ["Seconds", "StepParts", "StepTime", "Untimed", "step_time"]

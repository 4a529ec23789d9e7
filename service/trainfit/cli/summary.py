"""The one line that Megatron logs of the memory it expects, and the time of a step."""

from __future__ import annotations

from typing import Literal

from trainfit.decisions.quantities import GIB, MIB
from trainfit.estimator.results import Estimate
from trainfit.resolve.plan import Plan
from trainfit.steptime import StepTime, Untimed, step_time

Unit = Literal["mb", "gb"]
STATES = ("weights", "gradients", "optimizer_states")


def summary_line(result: Estimate, plan: Plan, unit: Unit, *, activations: bool) -> str:
    """The stage that binds. Whatever is allocated beside the model states counts as activation,
    so that the two add up to the total.

    Source: Megatron-LM's report_theoretical_memory, whose MB are 2**20 bytes.
    """
    stage = result.stages[result.binding.pp_rank]
    states = sum(each.bytes for each in stage.components if each.name in STATES)
    parts = {"weight and optimizer": states}
    if activations:
        total = stage.allocated_bytes.expected
        parts |= {"activation": total - states, "total": total}
    size, name = (MIB, "MB") if unit == "mb" else (GIB, "GB")
    shown = ", ".join(f"{part}={number / size:.2f} {name}" for part, number in parts.items())
    return f"Theoretical memory footprints: {shown}{_speed(step_time(plan))}"


def _speed(timed: StepTime | Untimed) -> str:
    """The time of a step, where it is known, which Megatron does not log beside."""
    if isinstance(timed, Untimed):
        return ""
    seconds, tokens = timed.seconds.expected, timed.tokens_per_second_per_gpu
    return f", step={seconds:.3g} s, tokens/s/GPU={tokens:.0f}"

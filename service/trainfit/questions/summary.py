"""An estimate in one line, or in one number: the stage that binds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trainfit.decisions.quantities import GIB, MIB
from trainfit.estimator.results import Component, Estimate, Stage
from trainfit.steptime import StepTime, Untimed

Unit = Literal["mb", "gb"]
Summary = Literal["mb", "gb", "total"]
"""Megatron's one line, or the bytes alone that are expected on each GPU."""

STATES = {"weights": "weight", "gradients": "gradient", "optimizer_states": "optimizer"}


@dataclass(frozen=True, slots=True)
class SummaryLines:
    """The line that Megatron logs, of the stage that needs most, in MiB and in GiB."""

    mb: str
    gb: str


def summary_lines(
    estimate: Estimate, timed: StepTime | Untimed, *, activations: bool
) -> SummaryLines:
    """Whatever is allocated beside the model states counts as activation, so that the two add up
    to the total.

    Source: Megatron-LM's report_theoretical_memory, whose MB are 2**20 bytes. It tells nothing of
    experts, nor of time.
    """
    stage = estimate.stages[estimate.binding.pp_rank]
    states = _states(stage)
    size = sum(each.bytes for each in states.values())
    parts = {"weight and optimizer": size}
    if activations:
        total = stage.allocated_bytes.expected
        parts |= {"activation": total - size, "total": total}
    speed = _speed(timed)

    def line(unit: Unit) -> str:
        footprints = f"Theoretical memory footprints: {_shown(parts, unit)}"
        return f"{footprints}{speed}{_experts_apart(states, unit)}"

    return SummaryLines(line("mb"), line("gb"))


def _states(stage: Stage) -> dict[str, Component]:
    """The model states, as Megatron calls them."""
    return {STATES[each.name]: each for each in stage.components if each.name in STATES}


def _experts_apart(states: Mapping[str, Component], unit: Unit) -> str:
    """The states of experts and of all else, where a stage has experts and they are told apart."""
    experts = {name: each.expert_bytes or 0 for name, each in states.items()}
    if not any(experts.values()):
        return ""
    dense = {name: each.bytes - experts[name] for name, each in states.items()}
    return f"; experts: {_shown(experts, unit)}; dense: {_shown(dense, unit)}"


def _shown(parts: Mapping[str, int], unit: Unit) -> str:
    size, name = (MIB, "MB") if unit == "mb" else (GIB, "GB")
    return ", ".join(f"{part}={number / size:.2f} {name}" for part, number in parts.items())


def _speed(timed: StepTime | Untimed) -> str:
    """The time of a step, where it is known."""
    if isinstance(timed, Untimed):
        return ""
    seconds, tokens = timed.seconds.expected, timed.step.tokens_per_second_per_gpu
    return f", step={seconds:.3g} s, tokens/s/GPU={tokens:.0f}"

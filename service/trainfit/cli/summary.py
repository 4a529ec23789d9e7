"""The one line that Megatron logs of the memory it expects."""

from __future__ import annotations

from typing import Literal

from trainfit.decisions.quantities import GIB, MIB
from trainfit.estimator.results import Estimate

Unit = Literal["mb", "gb"]
STATES = ("weights", "gradients", "optimizer_states")


def summary_line(result: Estimate, unit: Unit, *, activations: bool) -> str:
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
    return f"Theoretical memory footprints: {shown}"

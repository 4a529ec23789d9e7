"""Which parts of an estimate the figures of a run tell apart.

A part is attributed only where moments separate it: between two steps lie the states, buffers and
libraries; what a peak has more is transient; what is reserved above that is the allocator's; what
the card has more lies outside PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trainfit.decisions.reconcile.comparison import ComparedFigure, Quantity
from trainfit.estimator.results import Estimate, Stage

How = Literal["measured", "group", "predicted"]


@dataclass(frozen=True, slots=True)
class Attribution:
    """A part of what a stage takes, predicted and, where figures separate it, measured: alone, or
    as a `group` of parts that no figure tells apart.
    """

    pp_rank: int
    part: str
    how: How
    predicted_bytes: int
    measured_bytes: int | None


def attributions(found: Sequence[ComparedFigure], estimate: Estimate) -> list[Attribution]:
    """The parts of every stage that was seen."""
    return [part for stage in estimate.stages for part in _of_stage(stage, _measured(found, stage))]


def _measured(found: Sequence[ComparedFigure], stage: Stage) -> Mapping[Quantity, int]:
    """The highest figure of each quantity that a stage's ranks reported."""
    highest: dict[Quantity, int] = {}
    for each in found:
        if each.pp_rank == stage.pp_rank and each.predicted is not None and not each.at_least:
            highest[each.quantity] = max(highest.get(each.quantity, 0), each.measured_bytes)
    return highest


def _of_stage(stage: Stage, highest: Mapping[Quantity, int]) -> Iterator[Attribution]:
    if not highest:
        return
    rank, allocated = stage.pp_rank, stage.allocated_bytes.expected
    transient = allocated - stage.resident_bytes
    sizes = {each.name: each.bytes for each in stage.components}

    def part(name: str, how: How, predicted: int, measured: int | None) -> Attribution:
        told_how: How = how if measured is not None else "predicted"
        return Attribution(rank, name, told_how, predicted, measured)

    peak, resident = highest.get("allocated"), highest.get("resident")
    if resident is not None or peak is None:
        yield part("states_and_buffers", "group", stage.resident_bytes, resident)
        yield part("transient", "group", transient, _less(peak, resident))
    else:
        yield part("tensors", "group", allocated, peak)
    reserved, device = highest.get("reserved"), highest.get("device")
    yield part("allocator_slack", "measured", sizes["allocator_slack"], _less(reserved, peak))
    outside = sizes["context_and_communicators"]
    yield part("context_and_communicators", "group", outside, _less(device, reserved))


def _less(more: int | None, less: int | None) -> int | None:
    return None if more is None or less is None else more - less

"""The same run by several releases of its framework, as one whose bounds hold for each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from trainfit.estimator.assumptions import SEVERAL_RELEASES
from trainfit.estimator.results import Assumption, Estimate, Interval, Needs, Stage, StageNeeds

AnyStage = TypeVar("AnyStage", bound=Stage | StageNeeds)


def spanned_estimate(meant: Estimate, others: Mapping[str, Estimate]) -> Estimate:
    """What the release that is meant needs, within the bounds of all: the lowest and the highest of
    every stage. `others` are named by their releases; those that give a bound are told.
    """
    stages = [
        replace(
            stage,
            allocated_bytes=_span([each.allocated_bytes for each in same]),
            reserved_bytes=_span([each.reserved_bytes for each in same]),
            device_bytes=_span([each.device_bytes for each in same]),
        )
        for stage, same in _beside(meant.stages, [each.stages for each in others.values()])
    ]
    rank = meant.binding.pp_rank
    device = stages[rank].device_bytes
    told = _told(device, meant.stages[rank].device_bytes, _on(rank, others))
    return replace(
        meant,
        stages=stages,
        binding=replace(meant.binding, device_bytes=device),
        assumptions=[*meant.assumptions, *told],
    )


def spanned_needs(meant: Needs, others: Sequence[Needs]) -> Needs:
    """The same of the part of an estimate that decides."""
    stages = [
        stage._replace(
            allocated_bytes=_span([each.allocated_bytes for each in same]),
            reserved_bytes=_span([each.reserved_bytes for each in same]),
            device_bytes=_span([each.device_bytes for each in same]),
        )
        for stage, same in _beside(meant.stages, [each.stages for each in others])
    ]
    device = stages[meant.binding.pp_rank].device_bytes
    return meant._replace(stages=stages, binding=replace(meant.binding, device_bytes=device))


def _beside(
    meant: Sequence[AnyStage], others: Sequence[Sequence[AnyStage]]
) -> Iterator[tuple[AnyStage, list[AnyStage]]]:
    """Each stage, and with it those of its rank under the other releases."""
    runs: list[Sequence[AnyStage]] = [meant, *others]
    for rank, stage in enumerate(meant):
        yield stage, [stages[rank] for stages in runs if rank < len(stages)]


def _span(intervals: Sequence[Interval]) -> Interval:
    """The bounds of all; the first is what is expected."""
    low, high = min(each.low for each in intervals), max(each.high for each in intervals)
    return Interval(low, intervals[0].expected, high)


def _on(rank: int, others: Mapping[str, Estimate]) -> dict[str, Interval]:
    return {
        name: each.stages[rank].device_bytes
        for name, each in others.items()
        if rank < len(each.stages)
    }


def _told(
    device: Interval, meant: Interval, others: Mapping[str, Interval]
) -> Iterator[Assumption]:
    """Which releases give the bounds, where they are not those of the release that is meant."""
    ends = []
    if device.low < meant.low:
        lowest = min(others, key=lambda name: others[name].low)
        ends.append(f"the low bound is that of {lowest}")
    if device.high > meant.high:
        highest = max(others, key=lambda name: others[name].high)
        ends.append(f"the high bound is that of {highest}")
    if ends:
        text = f"{SEVERAL_RELEASES.text} Here {' and '.join(ends)}."
        yield Assumption(SEVERAL_RELEASES.id, text)

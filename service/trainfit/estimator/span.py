"""Several runs as one whose bounds hold for each: the same by several releases of its framework,
or with options that are not modelled as far as they can move it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from trainfit.estimator.assumptions import BOUNDED_OPTIONS, SEVERAL_RELEASES
from trainfit.estimator.results import Assumption, Estimate, Interval, Needs, Stage, StageNeeds

AnyStage = TypeVar("AnyStage", bound=Stage | StageNeeds)
Result = TypeVar("Result", Estimate, Needs)


@dataclass(frozen=True, slots=True)
class UnmodelledRange(Generic[Result]):
    """How far options that are not modelled can move a peak: down to the least of what is `below`,
    less so many bytes, and up to the most of what is `above`, and so many bytes more, beside which
    so many may be `cached`.
    """

    below: Sequence[Result] = ()
    above: Sequence[Result] = ()
    less_bytes: int = 0
    more_bytes: int = 0
    cached_bytes: int = 0

    def sizes(self, stage: Stage | StageNeeds, rank: int) -> dict[str, Any]:
        """The bounds of what a stage has allocated and reserved, and needs on the device."""
        below = [_sizes(each.stages[rank]) for each in self.below]
        above = [_sizes(each.stages[rank]) for each in self.above]
        return {
            name: self._around(
                meant,
                [each[name] for each in below],
                [each[name] for each in above],
                self.more_bytes + (0 if name == "allocated_bytes" else self.cached_bytes),
            )
            for name, meant in _sizes(stage).items()
        }

    def _around(
        self, meant: Interval, below: Sequence[Interval], above: Sequence[Interval], more: int
    ) -> Interval:
        low = min(each.low for each in (meant, *below)) - self.less_bytes
        high = max(each.high for each in (meant, *above)) + more
        return Interval(max(0, low), meant.expected, high)


def spanned_estimate(meant: Estimate, others: Mapping[str, Estimate]) -> Estimate:
    """What the release that is meant needs, within the bounds of all: the lowest and the highest of
    every stage. `others` are named by their releases; those that give a bound are named.
    """
    stages = [
        replace(stage, **_spanned(same))
        for stage, same in _beside(meant.stages, [each.stages for each in others.values()])
    ]
    rank = meant.binding.pp_rank
    device = stages[rank].device_bytes
    differences = _differences(device, meant.stages[rank].device_bytes, _on(rank, others))
    return replace(
        meant,
        stages=stages,
        binding=replace(meant.binding, device_bytes=device),
        assumptions=[*meant.assumptions, *differences],
    )


def spanned_needs(meant: Needs, others: Sequence[Needs]) -> Needs:
    """The part of an estimate that decides, with bounds that span all of these."""
    stages = [
        stage._replace(**_spanned(same))
        for stage, same in _beside(meant.stages, [each.stages for each in others])
    ]
    device = stages[meant.binding.pp_rank].device_bytes
    return meant._replace(stages=stages, binding=replace(meant.binding, device_bytes=device))


def reaching_estimate(
    meant: Estimate, reach: UnmodelledRange[Estimate], options: Sequence[str]
) -> Estimate:
    """What is meant, within what these options can make of it."""
    stages = [replace(stage, **reach.sizes(stage, rank)) for rank, stage in enumerate(meant.stages)]
    binding = replace(meant.binding, device_bytes=stages[meant.binding.pp_rank].device_bytes)
    text = f"{BOUNDED_OPTIONS.text} Here: {', '.join(options)}."
    assumptions = [*meant.assumptions, Assumption(BOUNDED_OPTIONS.id, text)]
    return replace(meant, stages=stages, binding=binding, assumptions=assumptions)


def reaching_needs(meant: Needs, reach: UnmodelledRange[Needs]) -> Needs:
    """The part of an estimate that decides, with bounds that reach as far as these."""
    stages = [stage._replace(**reach.sizes(stage, rank)) for rank, stage in enumerate(meant.stages)]
    binding = replace(meant.binding, device_bytes=stages[meant.binding.pp_rank].device_bytes)
    return meant._replace(stages=stages, binding=binding)


def uncalibrated(estimate: Estimate) -> Estimate | None:
    """What published runs alone would say the device takes; None where nothing else was used."""
    stages = []
    for stage in estimate.stages:
        if stage.uncalibrated_device_bytes is None:
            return None
        stages.append(replace(stage, device_bytes=stage.uncalibrated_device_bytes))
    return replace(estimate, stages=stages)


def _sizes(stage: Stage | StageNeeds) -> dict[str, Interval]:
    """What has bounds of a stage, by its name."""
    sizes = {
        "allocated_bytes": stage.allocated_bytes,
        "reserved_bytes": stage.reserved_bytes,
        "device_bytes": stage.device_bytes,
    }
    if stage.uncalibrated_device_bytes is not None:
        sizes["uncalibrated_device_bytes"] = stage.uncalibrated_device_bytes
    return sizes


def _spanned(same: Sequence[Stage | StageNeeds]) -> dict[str, Any]:
    """The bounds of a stage that span those of the same one in every run."""
    runs = [_sizes(each) for each in same]
    return {name: _span([each[name] for each in runs]) for name in runs[0]}


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


def _differences(
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

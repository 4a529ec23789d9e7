"""Estimates side by side: how each differs from a baseline, and which needs less everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import le, sub

from trainfit.decisions.verdict import Verdict
from trainfit.estimator.results import (
    COMPONENTS,
    Binding,
    ComponentName,
    DataParallelism,
    Interval,
    Needs,
    StageNeeds,
)
from trainfit.steptime import Seconds


@dataclass(frozen=True, slots=True)
class NamedNeeds:
    """What a job needs under a name, with the verdict on its card if one is named, and the time of
    its step if that is known.
    """

    id: str
    needs: Needs
    verdict: Verdict | None
    step_seconds: Seconds | None


@dataclass(frozen=True, slots=True)
class ComponentComparison:
    """Bytes of one kind at a stage's peak, and how many more than the baseline's."""

    name: ComponentName
    bytes: int
    difference_bytes: int | None


@dataclass(frozen=True, slots=True)
class StageComparison:
    """A stage beside the one of the same pipeline rank in the baseline.

    `difference_bytes` is how much more is expected on the device; null where the baseline has no
    such stage. `uncalibrated_device_bytes` are what published runs alone would say, where a
    calibration of the cluster was used.
    """

    pp_rank: int
    components: list[ComponentComparison]
    device_bytes: Interval
    difference_bytes: int | None
    uncalibrated_device_bytes: Interval | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One job beside the others.

    `difference_bytes` compares what is expected on the device of the rank that needs most. A job
    dominates another of as many stages when on no stage it is expected to need more of the device,
    and on one less. `step_seconds` are null where the time of its step is not known.
    """

    verdict: Verdict | None
    parallelism: DataParallelism
    binding: Binding
    difference_bytes: int | None
    step_seconds: Seconds | None
    stages: list[StageComparison]
    dominates: list[str]
    warnings: list[str]


def compare(candidates: Sequence[NamedNeeds], baseline: Needs | None) -> list[Comparison]:
    """Each candidate beside the baseline and all the others. Differences are null without one."""
    profiles = [_Profile(each) for each in candidates]
    return [_comparison(each, profiles, baseline) for each in profiles]


class _Profile:
    """What a candidate is expected to need of the device, stage by stage."""

    def __init__(self, candidate: NamedNeeds) -> None:
        self.candidate = candidate
        self.expected = [stage.device_bytes.expected for stage in candidate.needs.stages]
        self.total = sum(self.expected)

    def dominates(self, other: _Profile) -> bool:
        """What needs less in all may need no more anywhere."""
        return (
            self.total < other.total
            and len(self.expected) == len(other.expected)
            and all(map(le, self.expected, other.expected))
        )


def _comparison(
    profile: _Profile, profiles: Sequence[_Profile], baseline: Needs | None
) -> Comparison:
    needs = profile.candidate.needs
    base_stages = baseline.stages if baseline is not None else []
    return Comparison(
        verdict=profile.candidate.verdict,
        parallelism=needs.parallelism,
        binding=needs.binding,
        difference_bytes=(
            needs.binding.device_bytes.expected - baseline.binding.device_bytes.expected
            if baseline is not None
            else None
        ),
        step_seconds=profile.candidate.step_seconds,
        stages=[
            _stage(rank, stage, base_stages[rank] if rank < len(base_stages) else None)
            for rank, stage in enumerate(needs.stages)
        ],
        dominates=[other.candidate.id for other in profiles if profile.dominates(other)],
        warnings=needs.warnings,
    )


def _stage(rank: int, stage: StageNeeds, base: StageNeeds | None) -> StageComparison:
    sizes, device, bare = stage.sizes, stage.device_bytes, stage.uncalibrated_device_bytes
    if base is None:
        components = map(ComponentComparison, COMPONENTS, sizes, repeat(None))
        return StageComparison(rank, list(components), device, None, bare)
    components = map(ComponentComparison, COMPONENTS, sizes, map(sub, sizes, base.sizes))
    difference = device.expected - base.device_bytes.expected
    return StageComparison(rank, list(components), device, difference, bare)

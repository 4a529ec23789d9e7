"""Estimates side by side: how each differs from a baseline, and which needs less everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import le

from trainfit.decisions.verdict import Verdict
from trainfit.estimator.results import (
    Binding,
    ComponentName,
    DataParallelism,
    Estimate,
    Interval,
    Stage,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An estimate under a name, with the verdict on its card if one is named."""

    id: str
    estimate: Estimate
    verdict: Verdict | None


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
    such stage.
    """

    pp_rank: int
    components: list[ComponentComparison]
    device_bytes: Interval
    difference_bytes: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One job beside the others.

    `difference_bytes` compares what is expected on the device of the rank that needs most. A job
    dominates another of as many stages when on no stage it is expected to need more of the device,
    and on one less.
    """

    verdict: Verdict | None
    parallelism: DataParallelism
    binding: Binding
    difference_bytes: int | None
    stages: list[StageComparison]
    dominates: list[str]
    warnings: list[str]


def compare(candidates: Sequence[Candidate], baseline: Estimate | None) -> list[Comparison]:
    """Each candidate beside the baseline and all the others. Differences are null without one."""
    needs = [
        (each.id, [stage.device_bytes.expected for stage in each.estimate.stages])
        for each in candidates
    ]
    return [
        _comparison(each, need, needs, baseline)
        for each, (_, need) in zip(candidates, needs, strict=True)
    ]


def _comparison(
    candidate: Candidate,
    need: list[int],
    needs: list[tuple[str, list[int]]],
    baseline: Estimate | None,
) -> Comparison:
    estimate = candidate.estimate
    base_stages = baseline.stages if baseline is not None else []
    return Comparison(
        verdict=candidate.verdict,
        parallelism=estimate.parallelism,
        binding=estimate.binding,
        difference_bytes=(
            estimate.binding.device_bytes.expected - baseline.binding.device_bytes.expected
            if baseline is not None
            else None
        ),
        stages=[
            _stage(stage, base_stages[rank] if rank < len(base_stages) else None)
            for rank, stage in enumerate(estimate.stages)
        ],
        dominates=[other for other, theirs in needs if _dominates(need, theirs)],
        warnings=estimate.warnings,
    )


def _dominates(ours: list[int], theirs: list[int]) -> bool:
    return len(ours) == len(theirs) and ours != theirs and all(map(le, ours, theirs))


def _stage(stage: Stage, base: Stage | None) -> StageComparison:
    if base is None:
        components = [ComponentComparison(each.name, each.bytes, None) for each in stage.components]
        return StageComparison(stage.pp_rank, components, stage.device_bytes, None)
    of_base = {each.name: each.bytes for each in base.components}
    components = [
        ComponentComparison(each.name, each.bytes, each.bytes - of_base[each.name])
        for each in stage.components
    ]
    difference = stage.device_bytes.expected - base.device_bytes.expected
    return StageComparison(stage.pp_rank, components, stage.device_bytes, difference)

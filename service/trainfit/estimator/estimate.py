"""estimate(plan) -> Estimate: what the core answers; and needs(plan), the part that decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from trainfit import __version__
from trainfit.estimator import overhead
from trainfit.estimator.assumptions import assumptions_of, not_followed, warnings_of
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.local_parameters import ParameterTable, chunk_result, parameters_of
from trainfit.estimator.memo import Memo
from trainfit.estimator.parameters import ParameterCounts
from trainfit.estimator.rank import Rank
from trainfit.estimator.results import (
    COMPONENTS,
    Basis,
    Binding,
    CacheReleases,
    Component,
    DataParallelism,
    Estimate,
    EstimatedModel,
    Interval,
    Needs,
    Parameters,
    Stage,
    StageNeeds,
)
from trainfit.resolve.plan import Plan

if TYPE_CHECKING:
    from trainfit.estimator.reserved import Replayed


def estimate(
    plan: Plan, *, activations: bool = True, memo: Memo | None = None, replay: bool = True
) -> Estimate:
    """Memory of every pipeline rank of a plan. Pure: it reads nothing but the plan.

    Without `activations` only model states and standing buffers are counted. What plans of the
    same `memo` have in common is worked out once. Without `replay` reserved bytes rest on a ratio,
    which costs a hundredth.
    """
    memo = Memo() if memo is None else memo
    table = parameters_of(plan, memo)
    ranks = list(framework_of(plan).ranks(plan, table, memo, activations=activations))
    stages = _needs(ranks, plan, memo, replay=activations and replay)
    bases = {stage.reserved_basis for stage in stages}
    released = any(stage.cache_releases != "none" for stage in stages)
    uncounted = not_followed(plan)
    return Estimate(
        estimator_version=__version__,
        model=_model(plan, table, memo),
        parallelism=_data_parallelism(plan),
        stages=[_stage(number, rank, stages[number]) for number, rank in enumerate(ranks)],
        binding=_binding(stages),
        defaults=list(plan.defaults),
        assumptions=assumptions_of(plan, uncounted, bases=bases, released=released),
        warnings=warnings_of(plan, uncounted),
    )


def needs(plan: Plan, memo: Memo, *, replay: bool = True) -> Needs:
    """What every pipeline rank of a plan needs: of its estimate the part that decides."""
    table = parameters_of(plan, memo)
    ranks = list(framework_of(plan).ranks(plan, table, memo, activations=True))
    stages = _needs(ranks, plan, memo, replay=replay)
    return Needs(
        _data_parallelism(plan), stages, _binding(stages), warnings_of(plan, not_followed(plan))
    )


def least_bytes(plan: Plan, memo: Memo) -> Interval:
    """Bounds that those of the stage that needs most on the device cannot be below: without what
    the allocator holds beyond the tensors, which is never negative. A plan for which this is too
    much needs no more of an estimate.
    """
    framework, table, outside = framework_of(plan), parameters_of(plan, memo), outside_of(plan)
    stray = framework.stray_permille(plan)
    stages = [
        _allocated(rank, stray) for rank in framework.ranks(plan, table, memo, activations=True)
    ]
    return Interval(
        max([stage.low for stage in stages]) + outside.low,
        max([stage.expected for stage in stages]) + outside.expected,
        max([stage.high for stage in stages]) + outside.high,
    )


def _data_parallelism(plan: Plan) -> DataParallelism:
    return DataParallelism(
        num_gpus=plan.layout.num_gpus,
        dp=plan.layout.dp,
        expert_dp=plan.layout.expert_dp,
        num_microbatches=plan.batch.num_microbatches,
    )


def _model(plan: Plan, table: ParameterTable, memo: Memo) -> EstimatedModel:
    counts = table.counts
    return EstimatedModel(
        name=plan.source.name,
        model_type=plan.model.model_type,
        revision=plan.source.revision,
        source=plan.source.source,
        parameters=Parameters(
            total=counts.total,
            total_with_mtp=counts.total + counts.mtp,
            active=counts.active,
            trainable=_trainable(plan, counts, table, memo),
            by_bucket=dict(counts.by_bucket),
        ),
    )


def _trainable(plan: Plan, counts: ParameterCounts, table: ParameterTable, memo: Memo) -> int:
    trained = framework_of(plan).trained_parameters(plan, table, memo)
    return counts.trainable if trained is None else trained


def _needs(ranks: Sequence[Rank], plan: Plan, memo: Memo, *, replay: bool) -> list[StageNeeds]:
    framework = framework_of(plan)
    stray = framework.stray_permille(plan)
    allocated = [_allocated(rank, stray) for rank in ranks]
    replayed = memo(_replayed, plan, memo, tuple(allocated)) if replay else {}

    def needed(plan: Plan) -> list[StageNeeds]:
        outside = outside_of(plan)
        return [
            _stage_needs(number, rank, outside, allocated, replayed.get(number), plan)
            for number, rank in enumerate(ranks)
        ]

    if overhead.calibration_of(plan) is None:
        return needed(plan)
    return [
        stage._replace(uncalibrated_device_bytes=each.device_bytes)
        for stage, each in zip(needed(plan), needed(replace(plan, calibration=None)), strict=True)
    ]


def outside_of(plan: Plan) -> Interval:
    """What lies outside PyTorch on each card of a plan."""
    return overhead.context_and_communicators(plan, *links_of(plan))


def links_of(plan: Plan) -> tuple[int, Interval]:
    """How many communicators each card of a plan has, and the bytes of what moves tokens to experts
    on other ranks.
    """
    framework = framework_of(plan)
    return overhead.communicators(plan, framework.expert_groups(plan)), framework.exchange(plan)


def _replayed(plan: Plan, memo: Memo, allocated: tuple[Interval, ...]) -> dict[int, Replayed]:
    """What the allocator reserves for the requests of ranks, where they are known; it is loaded
    where there are any.
    """
    traces = framework_of(plan).traces(plan, memo)
    if not traces:
        return {}
    from trainfit.estimator.reserved import reservations

    return reservations(traces, plan, allocated)


def _allocated(rank: Rank, stray: int) -> Interval:
    """The rank's tensors, within the bounds of measured runs; towers may need more."""
    tensors, imbalance = sum(rank.tensors), rank.imbalance_permille
    return overhead.allocated(tensors, rank.routed, stray, rank.towers, imbalance)


def _stage_needs(
    number: int,
    rank: Rank,
    outside: Interval,
    of_ranks: Sequence[Interval],
    replayed: Replayed | None,
    plan: Plan,
) -> StageNeeds:
    """The rank's tensors, and what the card holds beyond them."""
    allocated = of_ranks[number]
    basis: Basis = "ratio"
    releases: CacheReleases = "none"
    if replayed is None:
        slack = overhead.slack(allocated, rank.cached, plan)
    else:
        slack, basis = replayed.beyond(of_ranks, number), "replayed"
        releases = replayed.reservation.releases
    if rank.pools is not overhead.NOTHING:
        slack = overhead.added(slack, rank.pools)
    held = overhead.added(allocated, slack)
    sizes = (*rank.tensors, slack.expected, outside.expected)
    device = overhead.added(held, outside)
    return StageNeeds(rank.peak, sizes, allocated, held, basis, device, releases)


def _stage(number: int, rank: Rank, needs: StageNeeds) -> Stage:
    """The rank as an estimate shows it."""
    states = rank.states
    others = map(Component, COMPONENTS[len(states) :], needs.sizes[len(states) :])
    return Stage(
        pp_rank=number,
        chunks=list(map(chunk_result, rank.placements, rank.parameters)),
        microbatches_in_flight=rank.in_flight,
        peak=needs.peak,
        binding_component=needs.largest,
        components=[*states, *others],
        resident_bytes=rank.resident,
        allocated_bytes=needs.allocated_bytes,
        reserved_bytes=needs.reserved_bytes,
        reserved_basis=needs.reserved_basis,
        device_bytes=needs.device_bytes,
        cache_releases=needs.cache_releases,
        uncalibrated_device_bytes=needs.uncalibrated_device_bytes,
    )


def _binding(stages: Sequence[StageNeeds]) -> Binding:
    rank, stage = max(enumerate(stages), key=lambda each: each[1].device_bytes.expected)
    return Binding(rank, stage.peak.moment, stage.largest, stage.device_bytes)

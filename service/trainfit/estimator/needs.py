"""needs(plan) -> Needs: what every pipeline rank of a plan needs, of its estimate the part that
decides; and what all of it rests on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from trainfit.estimator import overhead
from trainfit.estimator.assumptions import not_followed, warnings_of
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.local_parameters import parameters_of
from trainfit.estimator.memo import Memo
from trainfit.estimator.rank import Rank, Ranks
from trainfit.estimator.results import (
    Basis,
    Binding,
    CacheReleases,
    DataParallelism,
    Interval,
    Needs,
    StageNeeds,
)
from trainfit.resolve.plan import Plan
from trainfit.specs.calibration import Calibration

if TYPE_CHECKING:
    from trainfit.estimator.reserved import Replayed


def needs(plan: Plan, memo: Memo, *, replay: bool = True, limit_bytes: int | None = None) -> Needs:
    """What every pipeline rank of a plan needs. Where that is more than `limit_bytes` on one of
    them, by its high bound, it may raise TooMuchError as soon as that is seen.
    """
    ranks = framework_of(plan).ranks(plan, parameters_of(plan, memo), memo, activations=True)
    stages = stages_of(ranks, plan, memo, replay=replay, limit_bytes=limit_bytes)
    warnings = warnings_of(plan, not_followed(plan, memo))
    return Needs(data_parallelism(plan), stages, binding(stages), warnings)


def least_bytes(plan: Plan, memo: Memo) -> Interval:
    """Bounds that those of the stage that needs most on the device cannot be below: without what
    the allocator holds beyond the tensors, which is never negative. A plan for which this is too
    much needs no more of an estimate.
    """
    framework, outside = framework_of(plan), outside_of(plan)
    ranks = framework.ranks(plan, parameters_of(plan, memo), memo, activations=True)
    stages = memo(_allocated, ranks, framework.stray_permille(plan))
    expected = max([stage.expected for stage in stages])
    # Runs of the cluster may bound what is reserved closer than its tensors are bounded here.
    narrowed = own_replays(plan) is not None
    high = expected if narrowed else max([stage.high for stage in stages])
    return Interval(
        max([stage.low for stage in stages]) + outside.low,
        expected + outside.expected,
        high + outside.high,
    )


def data_parallelism(plan: Plan) -> DataParallelism:
    return DataParallelism(
        num_gpus=plan.layout.num_gpus,
        dp=plan.layout.dp,
        expert_dp=plan.layout.expert_dp,
        num_microbatches=plan.batch.num_microbatches,
    )


def binding(stages: Sequence[StageNeeds]) -> Binding:
    """The stage that needs most."""
    expected = [stage.device_bytes.expected for stage in stages]
    rank = expected.index(max(expected))
    stage = stages[rank]
    return Binding(rank, stage.peak.moment, stage.largest, stage.device_bytes)


def stages_of(
    ranks: Ranks, plan: Plan, memo: Memo, *, replay: bool, limit_bytes: int | None = None
) -> list[StageNeeds]:
    """The needs of these ranks of a plan; without `replay` reserved bytes rest on a ratio. Raises
    TooMuchError.
    """
    stray, grows = framework_of(plan).stray_permille(plan), overhead.grows_segments(plan)
    replays = memo.within(_replayed, plan, ranks, stray, limit_bytes) if replay else NOT_REPLAYED
    calibration, own = overhead.calibration_of(plan), own_replays(plan)
    outside = outside_of(plan)
    odd = overhead.odd_blocks(plan, outside), overhead.outgrown_blocks(plan, outside)
    stages = memo.within(_stages, ranks, stray, replays, grows, odd, calibration, own, outside)
    if calibration is None:
        return list(stages)
    bare = outside_of(replace(plan, calibration=None))
    published = memo.within(_stages, ranks, stray, replays, grows, odd, None, None, bare)
    return [
        stage._replace(uncalibrated_device_bytes=each.device_bytes)
        for stage, each in zip(stages, published, strict=True)
    ]


def outside_of(plan: Plan) -> Interval:
    """What lies outside PyTorch on each GPU of a plan."""
    framework = framework_of(plan)
    bare = overhead.context(plan, framework.kernel_loading(plan))
    return overhead.context_and_communicators(
        plan, bare, *links_of(plan), trains=framework.trains(plan)
    )


def own_replays(plan: Plan) -> overhead.Permille | None:
    """How far what is reserved is from its replay, in thousandths, as runs of the cluster show."""
    if plan.calibration is None:
        return None
    framework = framework_of(plan)
    return overhead.own_replays(plan, framework.trains(plan), framework.stray_permille(plan))


def links_of(plan: Plan) -> tuple[int, Interval]:
    """How many communicators each GPU of a plan has, and the bytes of what moves tokens to experts
    on other ranks.
    """
    framework = framework_of(plan)
    return overhead.communicators(plan, framework.expert_groups(plan)), framework.exchange(plan)


class ReservedByRank:
    """What the allocator reserves for the requests of ranks, where they are known."""

    def __init__(self, of: Mapping[int, Replayed]) -> None:
        self.of = of


NOT_REPLAYED = ReservedByRank({})


def _replayed(
    memo: Memo, plan: Plan, ranks: Ranks, stray: int, limit_bytes: int | None
) -> ReservedByRank:
    """The allocator is loaded where there are any requests."""
    traces = framework_of(plan).traces(plan, memo)
    if not traces:
        return NOT_REPLAYED
    from trainfit.estimator.reserved import reservations

    allocated = memo(_allocated, ranks, stray)
    return ReservedByRank(reservations(traces, plan, allocated, outside_of(plan), limit_bytes))


def _allocated(ranks: Ranks, stray: int) -> tuple[Interval, ...]:
    """The tensors of ranks, within the bounds of measured runs; towers may need more."""
    return tuple(
        [
            overhead.allocated(
                sum(rank.tensors), rank.routed, stray, rank.towers, rank.imbalance_permille
            )
            for rank in ranks
        ]
    )


def _stages(
    memo: Memo,
    ranks: Ranks,
    stray: int,
    replays: ReservedByRank,
    expandable_segments: bool | None,
    odd: tuple[overhead.OddBlocks, overhead.OutgrownBlocks | None],
    calibration: Calibration | None,
    own_permille: overhead.Permille | None,
    outside: Interval,
) -> tuple[StageNeeds, ...]:
    """The tensors of every rank, and what the GPU holds beyond them."""
    allocated = memo(_allocated, ranks, stray)

    def stage(number: int, rank: Rank) -> StageNeeds:
        tensors, replayed = allocated[number], replays.of.get(number)
        basis: Basis = "ratio"
        releases: CacheReleases = "none"
        if replayed is None:
            slack = overhead.slack(tensors, rank.cached, calibration, expandable_segments)
            rounded, outgrown = odd
            slack = rounded.beside(slack, tensors)
            if outgrown is not None:
                slack = outgrown.beside(slack, tensors, rank.activations + rank.workspace)
        else:
            slack, basis = replayed.beyond(allocated, number), "replayed"
            releases = replayed.reservation.releases
        if rank.pools is not overhead.NOTHING:
            pools = rank.pools
            if replayed is not None:
                pools = Interval(0, 0, pools.high - pools.expected)
            slack = overhead.added(slack, pools)
        held = overhead.added(tensors, slack)
        if replayed is not None and own_permille is not None and rank.is_known:
            found = replayed.reserved(number)
            if releases == "none" and found is not None:
                held = overhead.reserved_as_seen(held, found, own_permille)
                tensors = replace(tensors, high=min(tensors.high, held.high))
        sizes = (*rank.tensors, slack.expected, outside.expected)
        device = overhead.added(held, outside)
        return StageNeeds(rank.peak, sizes, tensors, held, basis, device, releases)

    return tuple([stage(number, rank) for number, rank in enumerate(ranks)])

"""estimate(plan) -> Estimate: what the core answers."""

from __future__ import annotations

from trainfit import __version__
from trainfit.estimator.assumptions import assumptions_of, not_followed, warnings_of
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.local_parameters import ParameterTable, chunk_result, parameters_of
from trainfit.estimator.memo import Memo
from trainfit.estimator.needs import binding, data_parallelism, stages_of
from trainfit.estimator.parameters import ParameterCounts
from trainfit.estimator.rank import Rank
from trainfit.estimator.results import (
    COMPONENTS,
    Component,
    Estimate,
    EstimatedModel,
    Parameters,
    Stage,
    StageNeeds,
)
from trainfit.resolve.plan import Plan


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
    ranks = framework_of(plan).ranks(plan, table, memo, activations=activations)
    stages = stages_of(ranks, plan, memo, replay=activations and replay)
    bases = {stage.reserved_basis for stage in stages}
    released = any(stage.cache_releases != "none" for stage in stages)
    uncounted = not_followed(plan, memo)
    return Estimate(
        estimator_version=__version__,
        model=_model(plan, table, memo),
        parallelism=data_parallelism(plan),
        stages=[_stage(number, rank, stages[number]) for number, rank in enumerate(ranks)],
        binding=binding(stages),
        defaults=list(plan.defaults),
        assumptions=assumptions_of(plan, uncounted, bases=bases, released=released),
        warnings=warnings_of(plan, uncounted),
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

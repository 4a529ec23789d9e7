"""estimate(plan) -> Estimate: the one public function of the core."""

from collections.abc import Iterator
from operator import attrgetter

from trainfit import __version__
from trainfit.estimator import overhead
from trainfit.estimator.assumptions import assumptions_of, warnings_of
from trainfit.estimator.frameworks.megatron import ranks as megatron
from trainfit.estimator.frameworks.pytorch import ranks as pytorch
from trainfit.estimator.frameworks.pytorch.states import trained_parameters
from trainfit.estimator.local_parameters import ParameterTable, chunk_result
from trainfit.estimator.parameters import ParameterCounts, count_parameters
from trainfit.estimator.rank import Rank
from trainfit.estimator.results import (
    Binding,
    Component,
    DataParallelism,
    Estimate,
    Interval,
    Parameters,
    PricedModel,
    Stage,
)
from trainfit.estimator.schedule import in_flight
from trainfit.resolve.plan import MegatronPlan, Plan, PytorchPlan


def estimate(plan: Plan, *, activations: bool = True) -> Estimate:
    """Memory of every pipeline rank of a plan. Pure: it reads nothing but the plan.

    Without `activations` only model states and standing buffers are counted.
    """
    table = ParameterTable(plan)
    outside = overhead.context_and_communicators(plan)
    stray = overhead.stray_permille(plan)
    stages = [
        _stage(number, rank, outside, stray, plan)
        for number, rank in enumerate(_ranks(plan, table, activations=activations))
    ]
    return Estimate(
        estimator_version=__version__,
        model=_model(plan, table),
        parallelism=DataParallelism(
            num_gpus=plan.layout.num_gpus,
            dp=plan.layout.dp,
            expert_dp=plan.layout.expert_dp,
            num_microbatches=plan.batch.num_microbatches,
        ),
        stages=stages,
        binding=_binding(stages),
        defaults=list(plan.defaults),
        assumptions=assumptions_of(plan),
        warnings=warnings_of(plan),
    )


def _model(plan: Plan, table: ParameterTable) -> PricedModel:
    counts = count_parameters(plan.model, table.kinds)
    return PricedModel(
        name=plan.source.name,
        model_type=plan.model.model_type,
        revision=plan.source.revision,
        source=plan.source.source,
        parameters=Parameters(
            total=counts.total,
            active=counts.active,
            trainable=_trainable(plan, counts),
            by_bucket=dict(counts.by_bucket),
        ),
    )


def _trainable(plan: Plan, counts: ParameterCounts) -> int:
    if isinstance(plan, PytorchPlan) and (plan.step.adapters is not None or plan.step.frozen):
        return trained_parameters(plan)
    return counts.trainable


def _ranks(plan: Plan, table: ParameterTable, *, activations: bool) -> Iterator[Rank]:
    if isinstance(plan, MegatronPlan):
        return megatron.ranks(plan, table, activations=activations)
    assert isinstance(plan, PytorchPlan)
    return pytorch.ranks(plan, table, activations=activations)


def _stage(number: int, rank: Rank, outside: Interval, stray: int, plan: Plan) -> Stage:
    tensors = (
        *rank.states,
        Component("activations", rank.activations),
        Component("workspace", rank.workspace),
        Component("framework_buffers", rank.framework_buffers),
    )
    allocated = overhead.allocated(sum([tensor.bytes for tensor in tensors]), rank.routed, stray)
    slack = overhead.slack(allocated, rank.cached, plan)
    reserved = _add(allocated, slack)
    components = [
        *tensors,
        Component("allocator_slack", slack.expected),
        Component("context_and_communicators", outside.expected),
    ]
    return Stage(
        pp_rank=number,
        chunks=list(map(chunk_result, rank.placements, rank.parameters)),
        microbatches_in_flight=in_flight(plan, number),
        peak=rank.peak,
        binding_component=max(components, key=_size).name,
        components=components,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        device_bytes=_add(reserved, outside),
    )


_size = attrgetter("bytes")


def _add(a: Interval, b: Interval) -> Interval:
    return Interval(a.low + b.low, a.expected + b.expected, a.high + b.high)


def _binding(stages: list[Stage]) -> Binding:
    stage = max(stages, key=lambda each: each.device_bytes.expected)
    return Binding(stage.pp_rank, stage.peak.moment, stage.binding_component, stage.device_bytes)

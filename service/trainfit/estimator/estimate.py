"""estimate(plan) -> Estimate: the one public function of the core."""

from functools import cache
from operator import attrgetter
from typing import NamedTuple

from trainfit import __version__
from trainfit.estimator import overhead
from trainfit.estimator.assumptions import assumptions_of, warnings_of
from trainfit.estimator.frameworks.megatron.buffers import Buffers, standing_buffers
from trainfit.estimator.frameworks.megatron.chunks import Ledger
from trainfit.estimator.parameters import count_parameters
from trainfit.estimator.peak import Activations, optimizer_step, price_chunk, stage_peak
from trainfit.estimator.placement import Content, Placement, place
from trainfit.estimator.results import (
    Binding,
    Component,
    ComponentName,
    DataParallelism,
    Estimate,
    Interval,
    Parameters,
    PricedModel,
    Stage,
)
from trainfit.estimator.schedule import in_flight
from trainfit.estimator.states import (
    ChunkParameters,
    Local,
    ParameterTable,
    bucket_padding,
    chunk_result,
    state_bytes,
    unsharded_units,
)
from trainfit.resolve.plan import Plan


def estimate(plan: Plan, *, activations: bool = True) -> Estimate:
    """Memory of every pipeline rank of a plan. Pure: it reads nothing but the plan.

    Without `activations` only model states and standing buffers are counted.
    """
    table = ParameterTable(plan)
    ledger = Ledger(plan)
    outside = overhead.context_and_communicators(plan)
    measured = overhead.is_measured(plan)
    hold = cache(lambda contents: _holding(contents, table, ledger))
    price = cache(lambda content: price_chunk(ledger, content))
    stages = []
    for rank, placements in enumerate(place(plan)):
        contents = tuple([placement.content for placement in placements])
        holding = hold(contents)
        highest = optimizer_step(holding.step_bytes)
        if activations:
            firsts = [placement.layers.start for placement in placements]
            running = stage_peak(ledger, [price(content) for content in contents], firsts, rank)
            highest = max(running, highest, key=lambda moment: moment.total)
        stages.append(_stage(rank, placements, holding, highest, outside, measured, plan))
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
            trainable=counts.trainable,
            by_bucket=dict(counts.by_bucket),
        ),
    )


class Holding(NamedTuple):
    """What a rank holds for the whole step. `step_bytes` is what its optimizer step borrows,
    `dropless` whether its experts take whatever is routed to them.
    """

    chunks: tuple[ChunkParameters, ...]
    states: tuple[Component, ...]
    step_bytes: int
    dropless: bool
    buffers: Buffers


def _holding(contents: tuple[Content, ...], table: ParameterTable, ledger: Ledger) -> Holding:
    plan = ledger.plan
    chunks = tuple([table.chunk(content) for content in contents])
    local = sum((chunk.all for chunk in chunks), Local())
    here = local.dense + local.expert
    sizes = state_bytes(local, plan)
    units = unsharded_units([unit for each in contents for unit in table.units(each)], plan)
    buffers = standing_buffers(
        ledger.gemm_shapes(contents),
        ledger.shared_buffers,
        has_experts=local.expert > 0,
        has_head=any(content.output_layer for content in contents),
        sizes=ledger.sizes,
        plan=plan,
    )

    def state(name: ComponentName, size: int) -> Component:
        return Component(name, size, local.whole, here, size / here if here else 0.0)

    states = (
        state("weights", sizes.weights),
        state("gradients", sizes.gradients),
        state("optimizer_states", sizes.optimizer),
    )
    padding = bucket_padding(local, plan)
    buffers = buffers._replace(framework=buffers.framework + units + padding)
    dropless = local.expert > 0 and not plan.routing.pad_to_capacity
    return Holding(chunks, states, sizes.step, dropless, buffers)


def _stage(
    rank: int,
    placements: list[Placement],
    holding: Holding,
    moving: Activations,
    outside: Interval,
    measured: bool,
    plan: Plan,
) -> Stage:
    buffers = holding.buffers
    tensors = (
        *holding.states,
        Component("activations", moving.kept),
        Component("workspace", moving.borrowed + buffers.workspace),
        Component("framework_buffers", moving.pipeline + buffers.framework),
    )
    unbalanced = moving.kept + moving.borrowed if holding.dropless else 0
    allocated = overhead.allocated(
        sum([tensor.bytes for tensor in tensors]), unbalanced, measured=measured
    )
    slack = overhead.slack(allocated, plan)
    reserved = _add(allocated, slack)
    components = [
        *tensors,
        Component("allocator_slack", slack.expected),
        Component("context_and_communicators", outside.expected),
    ]
    return Stage(
        pp_rank=rank,
        chunks=list(map(chunk_result, placements, holding.chunks)),
        microbatches_in_flight=in_flight(plan, rank),
        peak=moving.peak,
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

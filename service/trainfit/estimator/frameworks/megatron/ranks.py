"""Every pipeline rank of a plan under Megatron, at its peak."""

from collections.abc import Iterator
from functools import cache, partial, reduce
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple

from trainfit.estimator.blocks.moe.transformer_engine import with_least_ep
from trainfit.estimator.frameworks.megatron.buffers import Buffers, standing_buffers
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.combined import Combined
from trainfit.estimator.frameworks.megatron.states import (
    StateSharding,
    bucket_padding,
    state_bytes,
    state_sharding,
    unsharded_units,
)
from trainfit.estimator.local_parameters import ChunkParameters, Local, ParameterTable, Units
from trainfit.estimator.memo import Memo
from trainfit.estimator.peak import Activations, chunk_activations, optimizer_step, stage_peak
from trainfit.estimator.placement import Content, Placement, placements
from trainfit.estimator.rank import Rank
from trainfit.estimator.results import Component, ComponentName
from trainfit.estimator.run import run_of
from trainfit.estimator.schedule import in_flight
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.resolve.plan import Pipeline


class Placed:
    """The chunks of every rank, and what they are made of."""

    def __init__(self, pipeline: Pipeline, pattern: tuple[int, ...], mtp_layers: int) -> None:
        self.ranks = placements(pipeline, pattern, mtp_layers)
        self.contents = [tuple([each.content for each in rank]) for rank in self.ranks]


def ranks(
    plan: MegatronPlan, table: ParameterTable, memo: Memo, *, activations: bool
) -> Iterator[Rank]:
    """The ranks in order; ranks that hold equal chunks share the work, and so do plans what `memo`
    has of them.

    Without `activations` only model states and standing buffers are counted.
    """
    pipeline, m = plan.layout.pipeline, plan.batch.num_microbatches
    ledger = memo(MegatronLedger, with_least_ep(run_of(plan)))
    placed = memo(Placed, pipeline, plan.model.pattern, plan.mtp_layers)
    held = memo(_held, placed, table, state_sharding(plan))
    standing = memo(_standing, placed, ledger, plan.gpu.compute_capability, m)
    highest = [optimizer_step(each.step_bytes) for each in held]
    if activations:
        running = memo(_running, placed, memo(PricedChunks, ledger), pipeline, m)
        highest = [max(pair, key=_total) for pair in zip(running, highest, strict=True)]
    flying = [in_flight(pipeline, m, rank) for rank in range(pipeline.pp)]
    padded = repeat(plan.routing.pad_to_capacity)
    return map(_rank, placed.ranks, held, standing, highest, flying, padded)


_total = attrgetter("total")


class Held(NamedTuple):
    """What a rank holds of the model for the whole step. `step_bytes` is what its optimizer step
    borrows, `beside_bytes` what units held whole take, `padding_bytes` what padded buckets do.
    """

    chunks: tuple[ChunkParameters, ...]
    states: tuple[Component, ...]
    step_bytes: int
    beside_bytes: int
    padding_bytes: int
    experts: bool


def _rank(
    placements: list[Placement],
    held: Held,
    standing: Buffers,
    moving: Activations,
    in_flight: int,
    padded: bool,
) -> Rank:
    """Experts that are not `padded` to their capacity take whatever is routed to them."""
    buffers = standing.framework + held.padding_bytes
    return Rank(
        placements=placements,
        parameters=held.chunks,
        states=held.states,
        activations=moving.kept,
        workspace=moving.borrowed + standing.workspace,
        framework_buffers=moving.pipeline + buffers + held.beside_bytes,
        routed=moving.kept + moving.borrowed if held.experts and not padded else 0,
        resident=sum([state.bytes for state in held.states]) + standing.workspace + buffers,
        peak=moving.peak,
        in_flight=in_flight,
    )


def _held(placed: Placed, table: ParameterTable, sharding: StateSharding) -> list[Held]:
    @cache
    def held(contents: tuple[Content, ...]) -> Held:
        parameters = tuple([table.chunk(content) for content in contents])
        local = sum((chunk.all for chunk in parameters), Local())
        here = local.dense + local.expert
        sizes = state_bytes(local, sharding)
        units = unsharded_units(reduce(Units.and_those, map(table.units, contents)), sharding)

        def state(name: ComponentName, size: int) -> Component:
            return Component(name, size, local.whole, here, size / here if here else 0.0)

        return Held(
            parameters,
            (
                state("weights", sizes.weights),
                state("gradients", sizes.gradients),
                state("optimizer_states", sizes.optimizer),
            ),
            step_bytes=sizes.step,
            beside_bytes=units,
            padding_bytes=bucket_padding(local, sharding),
            experts=local.expert > 0,
        )

    return list(map(held, placed.contents))


def _standing(
    placed: Placed, ledger: MegatronLedger, compute_capability: str, m: int
) -> list[Buffers]:
    @cache
    def standing(contents: tuple[Content, ...]) -> Buffers:
        return standing_buffers(
            ledger.gemm_shapes(contents),
            ledger.shared_buffers,
            has_experts=any(map(ledger.has_experts, contents)),
            has_head=any(content.output_layer for content in contents),
            sizes=ledger.sizes,
            run=ledger.run,
            compute_capability=compute_capability,
            m=m,
        )

    return list(map(standing, placed.contents))


class PricedChunks:
    """The activations of chunks, each worked out once for all plans that share the ledger."""

    def __init__(self, ledger: MegatronLedger) -> None:
        self.ledger = ledger
        self.of = cache(partial(chunk_activations, ledger))


def _running(placed: Placed, priced: PricedChunks, pipeline: Pipeline, m: int) -> list[Activations]:
    """The peak of every rank's forwards and backwards."""
    ledger = priced.ledger
    combined = Combined(ledger) if ledger.run.framework.overlap_moe_expert_parallel_comm else None
    return [
        stage_peak(
            pipeline,
            m,
            ledger.sizes.act,
            [priced.of(each.content) for each in rank],
            [each.layers.start for each in rank],
            number,
            None if combined is None else combined.of([each.content for each in rank]),
        )
        for number, rank in enumerate(placed.ranks)
    ]

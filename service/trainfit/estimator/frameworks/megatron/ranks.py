"""Every pipeline rank of a plan under Megatron, at its peak."""

from collections.abc import Iterator
from functools import cache, reduce
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple

from trainfit.estimator import placement, schedule
from trainfit.estimator.frameworks.megatron import buffers, chunks
from trainfit.estimator.frameworks.megatron import states as model_states
from trainfit.estimator.frameworks.megatron.buffers import Buffers, standing_buffers
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.combined import Combined
from trainfit.estimator.frameworks.megatron.states import (
    bucket_padding,
    state_bytes,
    unsharded_units,
)
from trainfit.estimator.local_parameters import ChunkParameters, Local, ParameterTable, Units
from trainfit.estimator.memo import Memo
from trainfit.estimator.peak import Activations, chunk_activations, optimizer_step, stage_peak
from trainfit.estimator.placement import Content, Placement, place
from trainfit.estimator.rank import Rank
from trainfit.estimator.results import Component, ComponentName
from trainfit.resolve.plan import MegatronPlan

Placed = list[list[Placement]]
"""The chunks of every rank."""


def ranks(
    plan: MegatronPlan, table: ParameterTable, memo: Memo, *, activations: bool
) -> Iterator[Rank]:
    """The ranks in order; ranks that hold equal chunks share the work, and so do plans what `memo`
    has of them.

    Without `activations` only model states and standing buffers are counted.
    """
    model = memo.identity(plan.model)
    ledger = memo((model, "ledger", chunks.rests_on(plan)), lambda: MegatronLedger(plan))
    placed = memo((model, "placed", placement.rests_on(plan)), lambda: place(plan))
    where = memo.identity(placed)
    held = memo((table, where, model_states.rests_on(plan)), lambda: _held(placed, table, plan))
    standing = memo(
        (ledger, where, buffers.rests_on(plan)), lambda: _standing(placed, held, ledger, plan)
    )
    highest = [optimizer_step(each.step_bytes) for each in held]
    if activations:
        key = ledger, where, schedule.rests_on(plan)
        running = memo(key, lambda: _running(placed, ledger, plan))
        highest = [max(pair, key=_total) for pair in zip(running, highest, strict=True)]
    flying = [schedule.in_flight(plan, rank) for rank in range(plan.layout.pp)]
    padded = repeat(plan.routing.pad_to_capacity)
    return map(_rank, placed, held, standing, highest, flying, padded)


_total = attrgetter("total")


class Held(NamedTuple):
    """What a rank holds of the model for the whole step. `step_bytes` is what its optimizer step
    borrows, `beside_bytes` what units held whole and padded buckets take.
    """

    chunks: tuple[ChunkParameters, ...]
    states: tuple[Component, ...]
    step_bytes: int
    beside_bytes: int
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
    return Rank(
        placements=placements,
        parameters=held.chunks,
        states=held.states,
        activations=moving.kept,
        workspace=moving.borrowed + standing.workspace,
        framework_buffers=moving.pipeline + standing.framework + held.beside_bytes,
        routed=moving.kept + moving.borrowed if held.experts and not padded else 0,
        peak=moving.peak,
        in_flight=in_flight,
    )


def _held(placed: Placed, table: ParameterTable, plan: MegatronPlan) -> list[Held]:
    @cache
    def held(contents: tuple[Content, ...]) -> Held:
        parameters = tuple([table.chunk(content) for content in contents])
        local = sum((chunk.all for chunk in parameters), Local())
        here = local.dense + local.expert
        sizes = state_bytes(local, plan)
        units = unsharded_units(reduce(Units.and_those, map(table.units, contents)), plan)

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
            beside_bytes=units + bucket_padding(local, plan),
            experts=local.expert > 0,
        )

    return [held(contents) for contents in _contents(placed)]


def _standing(
    placed: Placed, held: list[Held], ledger: MegatronLedger, plan: MegatronPlan
) -> list[Buffers]:
    @cache
    def standing(contents: tuple[Content, ...], has_experts: bool) -> Buffers:
        return standing_buffers(
            ledger.gemm_shapes(contents),
            ledger.shared_buffers,
            has_experts=has_experts,
            has_head=any(content.output_layer for content in contents),
            sizes=ledger.sizes,
            plan=plan,
        )

    return list(map(standing, _contents(placed), [each.experts for each in held]))


def _contents(placed: Placed) -> list[tuple[Content, ...]]:
    return [tuple([each.content for each in rank]) for rank in placed]


def _running(placed: Placed, ledger: MegatronLedger, plan: MegatronPlan) -> list[Activations]:
    """The peak of every rank's forwards and backwards."""
    price = cache(lambda content: chunk_activations(ledger, content))
    combined = Combined(ledger) if plan.framework.overlap_moe_expert_parallel_comm else None
    return [
        stage_peak(
            plan,
            ledger.sizes.act,
            [price(each.content) for each in rank],
            [each.layers.start for each in rank],
            number,
            None if combined is None else combined.of([each.content for each in rank]),
        )
        for number, rank in enumerate(placed)
    ]

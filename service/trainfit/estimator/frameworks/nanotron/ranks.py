"""Every pipeline rank of a plan under nanotron, at its peak."""

from collections.abc import Iterator
from functools import cache
from operator import attrgetter
from typing import NamedTuple

from trainfit.estimator import cublas
from trainfit.estimator.frameworks.nanotron.ledger import NanotronLedger
from trainfit.estimator.frameworks.nanotron.states import (
    NanotronStates,
    ddp_buckets,
    memory_buffer,
    rotary_tables,
    states_of,
)
from trainfit.estimator.local_parameters import ChunkParameters, ParameterTable
from trainfit.estimator.memo import Memo
from trainfit.estimator.peak import (
    ActivationPeak,
    ChunkActivations,
    Segments,
    chunk_activations,
    highest_of,
    optimizer_step,
)
from trainfit.estimator.placement import Content, Placement, place
from trainfit.estimator.rank import Rank, Ranks
from trainfit.estimator.results import Component, ComponentName, Peak
from trainfit.estimator.schedule import in_flight
from trainfit.resolve.nanotron.plan import NanotronPlan


def ranks(
    plan: NanotronPlan,
    table: ParameterTable,
    memo: Memo,
    *,
    activations: bool,
) -> Ranks:
    """The ranks in order. Without `activations` only model states and standing buffers count."""
    return memo.within(_of_plan, plan, table, activations)


def _of_plan(
    memo: Memo,
    plan: NanotronPlan,
    table: ParameterTable,
    activations: bool,
) -> Ranks:
    return Ranks(_ranks(plan, table, memo, activations=activations))


def _ranks(
    plan: NanotronPlan, table: ParameterTable, memo: Memo, *, activations: bool
) -> Iterator[Rank]:
    ledger = memo(NanotronLedger, plan)
    running = cache(lambda content: activations_of(ledger, content))
    held = cache(lambda content: _held(content, ledger, table))
    pipeline, m = plan.layout.pipeline, plan.batch.num_microbatches
    for number, placements in enumerate(place(plan)):
        (placement,) = placements
        here, flying = (
            held(placement.content),
            in_flight(pipeline, m, number),
        )
        stepping, passing = optimizer_step(here.states.step), optimizer_step(0)
        if activations:
            passing = _passes(running(placement.content), flying, placement)
        yield _rank(placements, here, passing, stepping, flying)


_total = attrgetter("total")


class NanotronRankState(NamedTuple):
    """What a rank holds for the whole step."""

    parameters: ChunkParameters
    states: NanotronStates
    buffers: int
    workspace: int


def _held(content: Content, ledger: NanotronLedger, table: ParameterTable) -> NanotronRankState:
    plan, sizes = ledger.plan, ledger.sizes
    parameters = table.chunk(content)
    here = parameters.all.dense
    buffers = ddp_buckets(here, plan) + memory_buffer(sizes, plan)
    return NanotronRankState(
        parameters,
        states_of(here, plan),
        buffers + rotary_tables(len(content.kinds), sizes, plan),
        cublas.workspaces(plan.gpu.compute_capability),
    )


def activations_of(ledger: Segments, content: Content) -> ChunkActivations:
    """What a rank's forward saves for one micro-batch, and its highest moments. Gradients of
    weights that backward has passed stay until it ends.
    """
    chunk = chunk_activations(ledger, content)
    segments = list(ledger.segments(content))
    live, left, best = chunk.saved, 0, chunk.backward
    for placed in reversed(segments):
        live -= placed.segment.saved
        at = highest_of(placed, live, backward=True)
        at = at._replace(borrowed=at.borrowed + left, total=at.total + left)
        best = max(best, at, key=_total)
        left += placed.segment.gradients
    return chunk._replace(backward=best)


def _passes(chunk: ChunkActivations, flying: int, placement: Placement) -> ActivationPeak:
    """The higher of forward and backward beside the other micro-batches in flight."""
    at = max(chunk.forward, chunk.backward, key=_total)
    layer = None if at.layer is None else placement.layers.start + at.layer
    peak = Peak(at.moment, at.operation, layer, flying - 1)
    return ActivationPeak((flying - 1) * chunk.saved + at.kept, at.borrowed, 0, peak)


def _rank(
    placements: list[Placement],
    held: NanotronRankState,
    passing: ActivationPeak,
    stepping: ActivationPeak,
    flying: int,
) -> Rank:
    """The flat tensor of all weights that ends the step is longer than anything that the passes
    free, and gets a segment of its own beside theirs.
    """
    moving = max(passing, stepping, key=_total)
    return Rank(
        placements=placements,
        parameters=(held.parameters,),
        states=_components(held),
        activations=moving.kept,
        workspace=moving.borrowed + held.workspace,
        framework_buffers=held.buffers,
        routed=0,
        resident=held.states.weights + held.states.optimizer + held.buffers + held.workspace,
        peak=moving.peak,
        in_flight=flying,
        cached=max(0, passing.total + held.states.flat - moving.total),
    )


def _components(held: NanotronRankState) -> tuple[Component, ...]:
    whole, here = held.parameters.all.whole, held.parameters.all.dense

    def state(name: ComponentName, size: int) -> Component:
        return Component(name, size, whole, here, size / here if here else 0.0)

    states = held.states
    return (
        state("weights", states.weights),
        state("gradients", states.gradients),
        state("optimizer_states", states.optimizer),
    )

"""Every pipeline rank of a plan under Megatron, at its peak."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING

from trainfit.estimator.blocks.moe.rows import rows_of, strays_permille
from trainfit.estimator.blocks.moe.transformer_engine import with_least_ep
from trainfit.estimator.frameworks.megatron.buffers import Buffers, standing_buffers
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.freezing import is_partly_frozen, trained_table
from trainfit.estimator.frameworks.megatron.graphed import captures_at_once
from trainfit.estimator.frameworks.megatron.held import (
    MegatronRankState,
    adapters_of,
    held_by_ranks,
)
from trainfit.estimator.frameworks.megatron.peaks import (
    Orders,
    PricedChunks,
    RankPeak,
    graphed_peaks,
    running_peaks,
    with_graphs,
    without_graphs,
)
from trainfit.estimator.frameworks.megatron.states import (
    StateSharding,
    holds_units_whole,
    state_sharding,
)
from trainfit.estimator.local_parameters import ParameterTable
from trainfit.estimator.memo import Memo
from trainfit.estimator.overhead import IMBALANCE_PERMILLE
from trainfit.estimator.placement import Content, Placed, Placement
from trainfit.estimator.rank import Rank, Ranks
from trainfit.estimator.results import Component, Interval
from trainfit.estimator.run import MegatronRun, run_of
from trainfit.estimator.schedule import telling_microbatches
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.resolve.plan import Pipeline
from trainfit.specs.blocks import Experts

if TYPE_CHECKING:
    pass


def ranks(plan: MegatronPlan, table: ParameterTable, memo: Memo, *, activations: bool) -> Ranks:
    """The ranks in order; ranks that hold equal chunks share the work, and so do plans what `memo`
    has of them.

    Without `activations` only model states and standing buffers are counted.
    """
    run, sharding, m = run_of(plan), state_sharding(plan), _microbatches(plan)
    pipeline, capability = plan.layout.pipeline, plan.gpu.compute_capability
    return memo.within(_of_run, run, pipeline, m, table, sharding, capability, activations)


def _microbatches(plan: MegatronPlan) -> int:
    """As many as tell what a rank holds: all where the last ones run alone, or wait with their
    gradients.
    """
    framework, m = plan.framework, plan.batch.num_microbatches
    if framework.overlap_moe_expert_parallel_comm or framework.defer_embedding_wgrad_compute:
        return m
    return telling_microbatches(plan.layout.pipeline, m)


def _of_run(
    memo: Memo,
    run: MegatronRun,
    pipeline: Pipeline,
    m: int,
    table: ParameterTable,
    sharding: StateSharding,
    compute_capability: str,
    activations: bool,
) -> Ranks:
    ledger = memo(MegatronLedger, with_least_ep(run))
    placed = memo(Placed, pipeline, run.model.pattern, run.mtp_layers)
    by_muon = None if sharding.muon is None else ledger
    trained = table
    if is_partly_frozen(run):
        trained = memo(trained_table, table.divided, run.step.frozen)
    whole = None
    if holds_units_whole(sharding):
        from trainfit.estimator.frameworks.megatron.whole_units import WholeUnits

        whole = memo(WholeUnits, ledger, table, trained, sharding)
    adapters = adapters_of(run, memo)
    held = memo(held_by_ranks, placed, table, trained, sharding, adapters, by_muon, whole)
    standing = memo(_standing, placed, ledger, compute_capability, m)
    orders = memo(Orders, pipeline, m)
    pools = memo(_pools, placed, ledger, orders)
    highest = [RankPeak(each.stepping, 0, one) for each, one in zip(held, pools, strict=True)]
    if activations:
        priced = memo(PricedChunks, ledger, whole)
        running = memo(running_peaks, placed, priced, pipeline, m, orders)
        if captures_at_once(run):
            graphed = memo(graphed_peaks, placed, ledger, whole, pipeline, m, orders)
            highest = list(map(with_graphs, highest, running, graphed, held))
        else:
            highest = list(map(without_graphs, highest, running))
    flying = orders.in_flight
    strays = repeat(memo(_strays_permille, ledger))
    received = memo(_received, placed, ledger.sizes.act if activations else 0)
    has_tower = activations and run.model.encoder is not None
    towers = _towers(placed, run, flying) if has_tower else repeat(0)
    made = map(_rank, placed.ranks, held, standing, highest, received, flying, strays, towers)
    return Ranks(made)


def _received(placed: Placed, act: int) -> list[int]:
    """What chunks have between two steps of the last micro-batch: what each has received of another
    one, and the gradient of that, which its layers keep until the next comes in
    (TransformerBlock.set_input_tensor; schedules.py, backward_step).
    """
    return [2 * act * sum(not each.embedding for each in rank) for rank in placed.contents]


def _towers(placed: Placed, run: MegatronRun, in_flight: list[int]) -> Iterator[int]:
    """What activations of a tower take at most on each rank, where its tokens are not known: those
    of every micro-batch in flight.
    """
    from trainfit.estimator.frameworks.megatron.towers import most_bytes

    kept, running = most_bytes(run)
    for contents, flying in zip(placed.contents, in_flight, strict=True):
        embeds = any(content.embedding for content in contents)
        yield (kept * flying + running) * embeds


def _pools(placed: Placed, ledger: MegatronLedger, orders: Orders) -> list[Interval]:
    """What the pools of CUDA graphs hold."""
    return [ledger.pools(*each) for each in zip(placed.contents, orders.in_flight, strict=True)]


def _rank(
    placements: list[Placement],
    held: MegatronRankState,
    standing: Buffers,
    highest: RankPeak,
    received: int,
    in_flight: int,
    strays: int | None,
    towers: int,
) -> Rank:
    """The most loaded rank receives so many more rows than its share, if that is known: `strays`
    is in thousandths.
    """
    moving, absent, pools = highest
    buffers = standing.framework + held.padding_bytes + held.beside_bytes
    states = sum([state.bytes for state in held.states])
    return Rank(
        placements=placements,
        parameters=held.chunks,
        states=_at_peak(held.states, absent),
        activations=moving.kept,
        workspace=moving.borrowed + standing.workspace,
        framework_buffers=moving.pipeline + buffers,
        routed=moving.kept + moving.borrowed if held.experts and strays != 0 else 0,
        resident=states + standing.workspace + buffers + received,
        peak=moving.peak,
        in_flight=in_flight,
        pools=pools,
        towers=towers,
        imbalance_permille=IMBALANCE_PERMILLE if strays is None else strays,
    )


def _at_peak(states: tuple[Component, ...], absent: int) -> tuple[Component, ...]:
    """States without so many bytes of the optimizer's, which come behind the peak."""
    if not absent:
        return states
    *others, optimizer = states
    left = optimizer.bytes - absent
    each = left / optimizer.parameter_count_per_gpu
    return *others, replace(optimizer, bytes=left, bytes_per_parameter=each)


def _strays_permille(ledger: MegatronLedger) -> int | None:
    """By the experts that receive the fewest rows."""
    run, sizes = ledger.run, ledger.sizes
    experts = [block for block in run.model.blocks if isinstance(block, Experts)]
    sent = min([rows_of(block, sizes, run.routing).sent for block in experts], default=1)
    return strays_permille(sent, run.routing)


def _standing(
    placed: Placed, ledger: MegatronLedger, compute_capability: str, m: int
) -> list[Buffers]:
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

    each = {contents: standing(contents) for contents in placed.distinct}
    return [each[contents] for contents in placed.contents]

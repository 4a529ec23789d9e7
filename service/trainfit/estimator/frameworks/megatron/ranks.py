"""Every pipeline rank of a plan under Megatron, at its peak."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from trainfit.estimator.blocks.moe.rows import rows_of, strays_permille
from trainfit.estimator.blocks.moe.transformer_engine import with_least_ep
from trainfit.estimator.frameworks.megatron.buffers import Buffers, standing_buffers
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.combined import Combined
from trainfit.estimator.frameworks.megatron.freezing import is_partly_frozen, trained_table
from trainfit.estimator.frameworks.megatron.graphed import (
    BESIDE_ONE_GRAPH,
    GraphedPeaks,
    PartOfLayers,
    captures_at_once,
)
from trainfit.estimator.frameworks.megatron.states import (
    StateSharding,
    bucket_padding,
    frozen_bytes,
    holds_units_whole,
    state_bytes,
    state_sharding,
)
from trainfit.estimator.local_parameters import ChunkParameters, Local, ParameterTable
from trainfit.estimator.memo import Memo
from trainfit.estimator.overhead import IMBALANCE_PERMILLE, added
from trainfit.estimator.peak import ActivationPeak, chunk_activations, optimizer_step, stage_peak
from trainfit.estimator.placement import Content, Placement, placements
from trainfit.estimator.rank import Rank, Ranks
from trainfit.estimator.results import Component, ComponentName, Interval
from trainfit.estimator.run import MegatronRun, run_of
from trainfit.estimator.schedule import in_flight, order_of, telling_microbatches
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.resolve.plan import Pipeline
from trainfit.specs.blocks import Experts

if TYPE_CHECKING:
    from trainfit.estimator.frameworks.megatron.whole_units import WholeUnits


class Placed:
    """The chunks of every rank, and what they are made of."""

    def __init__(self, pipeline: Pipeline, pattern: tuple[int, ...], mtp_layers: int) -> None:
        self.ranks = placements(pipeline, pattern, mtp_layers)
        self.contents = [tuple([each.content for each in rank]) for rank in self.ranks]
        self.distinct = set(self.contents)


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
    held = memo(_held, placed, table, trained, sharding, adapters_of(run, memo), by_muon, whole)
    standing = memo(_standing, placed, ledger, compute_capability, m)
    orders = memo(Orders, pipeline, m)
    pools = memo(_pools, placed, ledger, orders)
    highest = [RankPeak(each.stepping, 0, one) for each, one in zip(held, pools, strict=True)]
    if activations:
        running = memo(_running, placed, memo(PricedChunks, ledger, whole), pipeline, m, orders)
        if captures_at_once(run):
            graphed = memo(_graphed, placed, ledger, whole, pipeline, m, orders)
            highest = list(map(_with_graphs, highest, running, graphed, held))
        else:
            highest = list(map(_without_graphs, highest, running))
    flying = orders.in_flight
    strays = repeat(memo(_strays_permille, ledger))
    received = memo(_received, placed, ledger.sizes.act if activations else 0)
    has_tower = activations and run.model.encoder is not None
    towers = _towers(placed, run, flying) if has_tower else repeat(0)
    made = map(_rank, placed.ranks, held, standing, highest, received, flying, strays, towers)
    return Ranks(made)


class RankPeak(NamedTuple):
    """The highest moment of a rank, so many bytes of whose optimizer states are `absent` then; and
    what the pools of CUDA graphs hold beyond what is allocated.
    """

    moving: ActivationPeak
    absent: int
    pools: Interval


def _without_graphs(stepping: RankPeak, running: ActivationPeak) -> RankPeak:
    """Steps run before graphs are captured, if there are any."""
    return stepping._replace(moving=max(running, stepping.moving, key=_total))


def _with_graphs(
    stepping: RankPeak, running: ActivationPeak, graphed: GraphedPeaks, held: MegatronRankState
) -> RankPeak:
    """No step runs before graphs are captured, which is before the optimizer has its moments. What
    a step would have without graphs is in their pools.
    """
    later = max(graphed.beside, stepping.moving, key=_total)
    highest = RankPeak(later, 0, stepping.pools)
    allocated = later.total
    if graphed.captured.total - held.moments > later.total:
        highest = RankPeak(graphed.captured, held.moments, stepping.pools)
        allocated = graphed.captured.total - held.moments
    more = max(0, max(running.total, stepping.moving.total) - allocated)
    pools = added(stepping.pools, Interval(more, more, more))
    return highest._replace(pools=pools)


_total = attrgetter("total")


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


class MegatronRankState(NamedTuple):
    """What a rank holds of the model for the whole step, `moments` of it from the end of the first
    one on. `stepping` is its optimizer step, `beside_bytes` what is whole beside its shares all the
    time, `padding_bytes` what padded buckets take.
    """

    chunks: tuple[ChunkParameters, ...]
    states: tuple[Component, ...]
    moments: int
    stepping: ActivationPeak
    beside_bytes: int
    padding_bytes: int
    experts: bool


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


def adapters_of(run: MegatronRun, memo: Memo) -> tuple[Local, ...]:
    """Adapters of a layer of each kind, which no linear reads in fp8; none where the model itself
    is trained.
    """
    if run.step.adapters is None:
        return ()
    alone = run._replace(tp=1, sequence_parallel=False, etp=1)
    here, whole = (map(sum, memo(MegatronLedger, each).adapters()) for each in (run, alone))
    return tuple(
        [
            Local(count, dense=local, linear=local, wide_linear=local)
            for count, local in zip(whole, here, strict=True)
        ]
    )


def _held(
    placed: Placed,
    table: ParameterTable,
    trained: ParameterTable,
    sharding: StateSharding,
    adapters: tuple[Local, ...],
    by_muon: MegatronLedger | None,
    whole: WholeUnits | None,
) -> list[MegatronRankState]:
    """What ranks hold, of which those in the second table are `trained`; `by_muon` are the products
    whose matrices Muon steps, if it does. Of units that are gathered, some may be `whole`.
    """
    muon = None if by_muon is None else _muon(placed, table, sharding, by_muon)

    def held(contents: tuple[Content, ...]) -> MegatronRankState:
        parameters = tuple([table.chunk(content) for content in contents])
        model = sum((chunk.all for chunk in parameters), Local())
        embedding = max([max(chunk.embedding, chunk.output_layer) for chunk in parameters])
        local, frozen, below, of_experts_below = model, Local(), 0, 0
        if adapters:
            kinds = [kind for content in contents for kind in content.kinds]
            local, frozen = sum((adapters[kind] for kind in kinds), Local()), model
        elif trained is not table:
            local = sum((trained.chunk(content).all for content in contents), Local())
            frozen = model.minus(local)
        if frozen.whole:
            below = frozen_bytes(frozen, sharding)
            of_experts_below = frozen_bytes(frozen.of_experts, sharding)
        sizes = state_bytes(local, sharding, 0 if adapters else embedding)
        of_experts = state_bytes(local.of_experts, sharding)
        beside = borrowed = 0
        padding = bucket_padding(local, sharding)
        if muon is not None and not adapters:
            borrowed, padding = muon(contents, local, embedding)
        if whole is not None:
            beside = whole.standing(contents)

        def state(name: ComponentName, of: Local, size: int, of_experts: int) -> Component:
            here = of.dense + of.expert
            each = size / here if here else 0.0
            return Component(name, size, of.whole, here, each, of_experts)

        weights = sizes.weights + below
        expert_weights = of_experts.weights + of_experts_below
        return MegatronRankState(
            parameters,
            (
                state("weights", local + frozen, weights, expert_weights),
                state("gradients", local, sizes.gradients, of_experts.gradients),
                state("optimizer_states", local, sizes.optimizer, of_experts.optimizer),
            ),
            moments=sizes.moments,
            stepping=optimizer_step(sizes.step + borrowed),
            beside_bytes=beside,
            padding_bytes=padding,
            experts=model.expert > 0,
        )

    each = {contents: held(contents) for contents in placed.distinct}
    return [each[contents] for contents in placed.contents]


def _muon(
    placed: Placed, table: ParameterTable, sharding: StateSharding, ledger: MegatronLedger
) -> Callable[[tuple[Content, ...], Local, int], tuple[int, int]] | None:
    """What its step borrows on a rank of such chunks, and what pads their buffers."""
    if sharding.muon is None:
        return None
    from trainfit.estimator.frameworks.megatron.matrices import muon_bytes
    from trainfit.estimator.frameworks.megatron.requests.parameters import PipelineParameters

    step, shapes = sharding.muon, ledger.gemm_shapes(tuple(chain.from_iterable(placed.contents)))
    parameters = PipelineParameters(table, shapes, words=False, head=False, frozen=False)

    def of(contents: tuple[Content, ...], local: Local, embedding: int) -> tuple[int, int]:
        return muon_bytes(contents, parameters, local, embedding, sharding, step)

    return of


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


def _graphed(
    placed: Placed,
    ledger: MegatronLedger,
    whole: WholeUnits | None,
    pipeline: Pipeline,
    m: int,
    orders: Orders,
) -> list[GraphedPeaks]:
    """Graphs of one micro-batch where there is no pipeline. All that one graph of a step captures
    is there as in a step without it.
    """
    if ledger.run.framework.cuda_graph_impl == "full_iteration":
        running = _running(placed, PricedChunks(ledger, whole), pipeline, m, orders)
        return [GraphedPeaks(each, BESIDE_ONE_GRAPH) for each in running]
    segments = (whole or ledger).segments
    captured, beside = (PartOfLayers(ledger, segments, captured=each) for each in (True, False))
    captured_m = 1 if pipeline.pp == 1 else m

    def peak(part: PartOfLayers, number: int, m: int, act: int) -> ActivationPeak:
        chunks = [chunk_activations(part, each) for each in placed.contents[number]]
        first = [each.layers.start for each in placed.ranks[number]]
        order = order_of(pipeline, m, number)
        return stage_peak(pipeline, m, order, act, chunks, first)

    act = ledger.sizes.act

    def graphed(number: int) -> GraphedPeaks:
        """What graphs read lies beside them for good: as much as is in flight at most."""
        at = peak(beside, number, m, act)
        read = [
            sum([act + ledger.graph_masks[kind] for kind in each.kinds])
            for each in placed.contents[number]
        ]
        flying = 1 if pipeline.pp == 1 else orders.in_flight[number]
        held = at.pipeline + max(read, default=0) * flying
        return GraphedPeaks(peak(captured, number, captured_m, 0), at._replace(pipeline=held))

    return list(map(graphed, range(pipeline.pp)))


class PricedChunks:
    """The activations of chunks, each worked out once for all plans that share the ledger, and what
    is `whole` beside them.
    """

    def __init__(self, ledger: MegatronLedger, whole: WholeUnits | None) -> None:
        self.ledger = ledger
        self.segments = (whole or ledger).segments
        self.of = cache(partial(chunk_activations, ledger, segments=self.segments))


class Orders:
    """What every rank of a pipeline runs in m micro-batches."""

    def __init__(self, pipeline: Pipeline, m: int) -> None:
        self.of = [order_of(pipeline, m, rank) for rank in range(pipeline.pp)]
        self.in_flight = [in_flight(pipeline, m, rank) for rank in range(pipeline.pp)]


def _running(
    placed: Placed, priced: PricedChunks, pipeline: Pipeline, m: int, orders: Orders
) -> list[ActivationPeak]:
    """The peak of every rank's forwards and backwards."""
    ledger = priced.ledger
    overlaps = ledger.run.framework.overlap_moe_expert_parallel_comm
    combined = Combined(ledger, priced.segments) if overlaps else None
    return [
        stage_peak(
            pipeline,
            m,
            order,
            ledger.sizes.act,
            list(map(priced.of, contents)),
            [each.layers.start for each in rank],
            None if combined is None else combined.of(contents),
        )
        for rank, contents, order in zip(placed.ranks, placed.contents, orders.of, strict=True)
    ]

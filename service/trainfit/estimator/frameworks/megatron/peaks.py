"""The highest moment of every rank under Megatron: forwards and backwards in its pipeline's order,
the optimizer step, and what CUDA graphs change of both.
"""

from __future__ import annotations

from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.combined import Combined
from trainfit.estimator.frameworks.megatron.graphed import (
    BESIDE_ONE_GRAPH,
    GraphedPeaks,
    PartOfLayers,
)
from trainfit.estimator.frameworks.megatron.held import MegatronRankState
from trainfit.estimator.overhead import added
from trainfit.estimator.peak import ActivationPeak, chunk_activations, stage_peak
from trainfit.estimator.placement import Placed
from trainfit.estimator.results import Interval
from trainfit.estimator.schedule import in_flight, order_of
from trainfit.resolve.plan import Pipeline

if TYPE_CHECKING:
    from trainfit.estimator.frameworks.megatron.whole_units import WholeUnits

_total = attrgetter("total")


class RankPeak(NamedTuple):
    """The highest moment of a rank, so many bytes of whose optimizer states are `absent` then; and
    what the pools of CUDA graphs hold beyond what is allocated.
    """

    moving: ActivationPeak
    absent: int
    pools: Interval


def without_graphs(stepping: RankPeak, running: ActivationPeak) -> RankPeak:
    """Steps run before graphs are captured, if there are any."""
    return stepping._replace(moving=max(running, stepping.moving, key=_total))


def with_graphs(
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


def graphed_peaks(
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
        steps = running_peaks(placed, PricedChunks(ledger, whole), pipeline, m, orders)
        return [GraphedPeaks(each, BESIDE_ONE_GRAPH) for each in steps]
    segments = (whole or ledger).segments
    captured, beside = (PartOfLayers(ledger, segments, captured=each) for each in (True, False))
    captured_m = 1 if pipeline.pp == 1 else m

    def peak(part: PartOfLayers, number: int, m: int, act: int) -> ActivationPeak:
        chunks = [chunk_activations(part, each) for each in placed.contents[number]]
        first = [each.layers.start for each in placed.ranks[number]]
        order = order_of(pipeline, m, number)
        return stage_peak(pipeline, m, order, act, chunks, first)

    act = ledger.sizes.act

    def at(number: int) -> GraphedPeaks:
        """What graphs read lies beside them for good: as much as is in flight at most."""
        at = peak(beside, number, m, act)
        read = [
            sum([act + ledger.graph_masks[kind] for kind in each.kinds])
            for each in placed.contents[number]
        ]
        flying = 1 if pipeline.pp == 1 else orders.in_flight[number]
        held = at.pipeline + max(read, default=0) * flying
        return GraphedPeaks(peak(captured, number, captured_m, 0), at._replace(pipeline=held))

    return list(map(at, range(pipeline.pp)))


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


def running_peaks(
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

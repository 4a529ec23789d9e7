"""The highest moment of a pipeline rank under torch.distributed.pipelining.

Buffers for what a stage receives, forward and backward, stand for every micro-batch of the step,
from the first step on. Gradients add up whole until a chunk's last backward has run. Source:
torch/distributed/pipelining/stage.py (_setup_forward_recv_info, _setup_backward_recv_info,
backward_maybe_with_nosync, perform_reduce_grad).
"""

from collections.abc import Mapping
from itertools import chain
from operator import mul
from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.engines.registry import engine_of
from trainfit.estimator.frameworks.pytorch.loads import (
    WIDTH,
    ChunkLoad,
    Load,
    Loads,
    fewest_alike,
    loads,
)
from trainfit.estimator.frameworks.pytorch.passes import (
    NO_LAYERS,
    ChunkPasses,
    Ends,
    Layers,
    Reached,
    ends_of,
)
from trainfit.estimator.frameworks.pytorch.schedules import REDUCE, Direction
from trainfit.estimator.frameworks.pytorch.states import Shares, States, shard
from trainfit.estimator.frameworks.pytorch.step import Live, optimizer_step
from trainfit.estimator.frameworks.pytorch.units import Unit, whole_embedding_gradient
from trainfit.estimator.memo import Memo
from trainfit.estimator.placement import Content, Placement
from trainfit.estimator.results import Peak
from trainfit.specs.parallelism import SPLIT_BACKWARD


class ChunkPeaks(NamedTuple):
    """One chunk of a rank: the bytes of what it holds, and the highest moments of its actions."""

    ends: Ends
    held: ChunkLoad
    moments: Mapping[Direction, Reached]


class PipelinedRanks:
    """The ranks of a plan. Equal chunks are worked out once, on whichever ranks they are."""

    def __init__(self, shares: Shares, memo: Memo) -> None:
        self._shares, self._ledger, self._memo = shares, shares.ledger, memo
        self._plan = shares.ledger.plan
        self._passes = ChunkPasses(self._ledger)
        self._engine = engine_of(self._plan)
        self._chunks: dict[tuple[Content, Ends], ChunkPeaks] = {}
        self._units: dict[int, Unit] = {}
        self._alike = fewest_alike(self._plan.layout.pipeline, self._plan.batch.num_microbatches)

    def loads(self, rank: int) -> Loads:
        """What the rank holds as its actions run."""
        return self._memo(loads, self._plan.layout.pipeline, self._alike, rank)

    def highest(self, rank: int, placements: list[Placement], states: States) -> Live:
        """The highest of the schedule's actions, and of the optimizer's step behind them."""
        ends = ends_of(self._plan.layout.pipeline, rank)
        contents = [placement.content for placement in placements]
        chunks = list(map(self._chunk, contents, ends))
        sizes = list(chain.from_iterable([chunk.held for chunk in chunks]))
        totals = {
            (direction, number): moment.total
            for number, chunk in enumerate(chunks)
            for direction, moment in chunk.moments.items()
        }
        found = self.loads(rank)
        load = found.highest(sizes, totals)
        standing = self._standing(chunks)
        running = self._live(load, chunks, standing, placements)
        left = standing + sum(map(mul, found.left, [chunk.held.left for chunk in chunks]))
        step = optimizer_step(states)._replace(buffers=left)
        end = Peak("end_of_backward", "outputs", None, None)
        merged = Live(step.gradients, 0, 0, left + self._collected(chunks), end)
        return max(running, merged, step, key=lambda live: live.total)

    def _standing(self, chunks: list[ChunkPeaks]) -> int:
        """Buffers [n', h] for each micro-batch that a chunk receives and for its gradient; with one
        chunk a rank also holds on to the gradient that it sent last (Schedule1F1B).
        """
        act, m = self._ledger.sizes.act, self._plan.batch.num_microbatches
        received = sum([2 - chunk.ends.begins - chunk.ends.ends for chunk in chunks])
        sent = self._plan.layout.pipeline.schedule == "1f1b" and not chunks[0].ends.begins
        return act * (m * received + sent) + self._collected(chunks)

    def _collected(self, chunks: list[ChunkPeaks]) -> int:
        """Logits of the whole batch, where the last stage collects them; to hand them out it copies
        them into one tensor (_merge_outputs).
        """
        if not self._plan.step.collects_outputs:
            return 0
        last = any(chunk.ends.ends for chunk in chunks)
        return self._ledger.logits * self._plan.batch.num_microbatches * last

    def _live(
        self, load: Load, chunks: list[ChunkPeaks], standing: int, placements: list[Placement]
    ) -> Live:
        """What is alive at the highest moment of an action."""
        direction, number, microbatch = load.action
        reached = chunks[number].moments[direction]
        held = ChunkLoad(*(_sum(load, chunks, each) for each in range(WIDTH)))
        layer = None
        if reached.layer is not None:
            layer = placements[number].layers.start + reached.layer
        return Live(
            gradients=held.reduced + held.added + held.first + held.fresh,
            kept=held.running + held.deferred + reached.kept,
            borrowed=reached.borrowed,
            buffers=standing + held.left + held.active + held.idle + reached.buffers,
            peak=Peak(reached.moment, reached.operation, layer, microbatch),
        )

    def _chunk(self, content: Content, ends: Ends) -> ChunkPeaks:
        key = content, ends
        if key not in self._chunks:
            self._chunks[key] = self._new_chunk(content, ends)
        return self._chunks[key]

    def _new_chunk(self, content: Content, ends: Ends) -> ChunkPeaks:
        plan = self._plan
        units = [self._unit(kind) for kind in content.kinds]
        outside = [self._engine.unit(part) for part in self._shares.outside(content)]
        layers = [unit.weights for unit in units]
        resharded = layers if plan.step.data_parallelism.reshard_after_forward else []
        fresh = self._fresh(content, ends)
        passes = self._passes.passes(content, ends, fresh._replace(weights=resharded))
        reduced, added = self._gradients(content)
        sum_of_fresh = sum(fresh.fresh) + fresh.outside
        whole = ends.begins or ends.handed_from
        split = plan.layout.pipeline.schedule in SPLIT_BACKWARD and not whole
        held = ChunkLoad(
            running=passes.running,
            deferred=passes.deferred,
            left=self._ledger.sizes.act * split,
            reduced=reduced,
            added=added,
            first=0 if sum_of_fresh else added,
            fresh=sum_of_fresh,
            active=sum([unit.weights for unit in outside]) + sum(layers) - sum(resharded),
            idle=sum(resharded),
        )
        reduction = max(
            [each.reduce_scatter + each.gradients - each.weights for each in (*units, *outside)]
        )
        buffers = sum(resharded) + reduction
        end = Reached("end_of_backward", "reduce_scatter", None, 0, 0, buffers)
        return ChunkPeaks(ends, held, {**passes.moments, REDUCE: end})

    def _unit(self, kind: int) -> Unit:
        if kind not in self._units:
            self._units[kind] = self._engine.unit(self._shares.layer(kind))
        return self._units[kind]

    def _gradients(self, content: Content) -> tuple[int, int]:
        """Gradients of a chunk's weights, once reduced and while they are whole."""
        states = self._plan.step.states
        numbers = self._shares.chunk(content)[1]
        sharded = self._plan.layout.sharding in ("optim_grads", "optim_grads_params")
        width = states.reduced if sharded else states.gradients
        whole = width * numbers.trained + whole_embedding_gradient(self._plan) * content.embedding
        part = states.gradients * shard(numbers, self._plan).trained
        return part if sharded else whole, whole

    def _fresh(self, content: Content, ends: Ends) -> Layers:
        """Gradients of a backward for weights that are narrower than what they are added to. The
        first stage runs its backward as a whole.
        """
        states, sharding = self._plan.step.states, self._plan.layout.sharding
        if ends.begins or sharding != "optim_grads_params" or states.reduced == states.gathered:
            return NO_LAYERS
        of_kind = [self._shares.layer(kind).trained for kind in content.kinds]
        outside = sum([part.trained for part in self._shares.outside(content)])
        return Layers((), [states.gathered * each for each in of_kind], states.gathered * outside)


def _sum(load: Load, chunks: list[ChunkPeaks], what: int) -> int:
    """Bytes of one of the things in Held over all chunks."""
    return sum(map(mul, load.counts[what::WIDTH], [chunk.held[what] for chunk in chunks]))

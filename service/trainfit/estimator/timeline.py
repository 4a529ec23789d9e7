"""The timeline of one step on a pipeline rank: its forwards and backwards in the order of the
schedule, and the activations that each leaves behind and has at its highest moment.

The passes and their memory are those of which `peak` takes the maximum.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from trainfit.estimator.peak import ChunkActivations, Segments, chunk_activations
from trainfit.estimator.placement import Content, place
from trainfit.estimator.schedule import chunk_of, cycle, left_behind, microbatch_of, warm_up
from trainfit.resolve.plan import Plan

MAX_PASSES = 4096
"""A timeline of more passes is not shown."""
LONG_TURNS = 64
"""A steady state of more turns than these is shown by its first cycles and its last."""

Direction = Literal["forward", "backward", "backward_for_inputs", "backward_for_weights"]
Phase = Literal["warm_up", "steady", "cool_down"]


@dataclass(frozen=True, slots=True)
class Pass:
    """One chunk's forward or backward of one micro-batch.

    `ordinal` counts the passes of the rank from 0. `kept_bytes` is what the micro-batches in flight
    keep for backward once the pass has run, `highest_bytes` the most that activations, what
    operations borrow and gradients between stages take while it runs.
    """

    ordinal: int
    phase: Phase
    direction: Direction
    vpp_rank: int
    microbatch: int
    kept_bytes: int
    highest_bytes: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The passes of a rank in order, of `count` in all. Of a long steady state whole cycles, each
    like the one before, are left out; a gap between ordinals shows where.
    """

    count: int
    passes: list[Pass]


OfChunk = Callable[[Segments, Content], ChunkActivations]


def timeline(
    plan: Plan, ledger: Segments, rank: int, act: int, of_chunk: OfChunk = chunk_activations
) -> Timeline | None:
    """The timeline of a rank, None for schedules that are known by their bound alone. `act` are the
    bytes that the schedule keeps for each neighbour once a backward has run.
    """
    if plan.layout.pipeline.schedule not in ("1f1b", "interleaved", "gpipe"):
        return None
    order = _Order(plan, rank)
    if order.length > MAX_PASSES:
        return None
    return Timeline(2 * order.total, list(_passes(plan, ledger, rank, act, order, of_chunk)))


class _Order:
    """Forwards before the first backward, turns of one forward and one backward, backwards."""

    def __init__(self, plan: Plan, rank: int) -> None:
        pipeline, m = plan.layout.pipeline, plan.batch.num_microbatches
        self.total = m * pipeline.vpp
        ahead = self.total if pipeline.schedule == "gpipe" else warm_up(pipeline, m, rank)
        self.start = min(ahead, self.total - 1)
        self.turns = self.total - self.start
        self._cycle = cycle(pipeline)
        spare = self.turns // self._cycle - 3 if self.turns > LONG_TURNS else 0
        self._omitted = max(0, spare) * self._cycle

    @property
    def length(self) -> int:
        return 2 * (self.total - self._omitted)

    def __iter__(self) -> Iterator[tuple[int, Phase, Direction, int]]:
        """Ordinal, phase and direction, and which forward or backward of the rank it is."""
        for forward in range(self.start):
            yield forward, "warm_up", "forward", forward
        for turn in self._shown_turns():
            ordinal = self.start + 2 * turn
            yield ordinal, "steady", "forward", self.start + turn
            yield ordinal + 1, "steady", "backward", turn
        for backward in range(self.turns, self.total):
            yield self.total + backward, "cool_down", "backward", backward

    def _shown_turns(self) -> Iterator[int]:
        """Two cycles and, where the steady state is longer, the end of it."""
        first = min(2 * self._cycle, self.turns)
        yield from range(first)
        yield from range(first + self._omitted, self.turns)


def _passes(
    plan: Plan, ledger: Segments, rank: int, act: int, order: _Order, of_chunk: OfChunk
) -> Iterator[Pass]:
    pipeline = plan.layout.pipeline
    placements = place(plan)[rank]
    chunks = [of_chunk(ledger, each.content) for each in placements]
    live = 0
    backwards = 0
    for ordinal, phase, direction, index in order:
        vpp_rank = chunk_of(index, pipeline)
        sent, received = left_behind(pipeline, rank, backwards)
        if direction == "forward":
            between = act * (sent + received)
            highest = live + chunks[vpp_rank].forward.total + between
            live += chunks[vpp_rank].saved
        else:
            vpp_rank = pipeline.vpp - 1 - vpp_rank
            between = act * sent
            live -= chunks[vpp_rank].saved
            highest = live + chunks[vpp_rank].backward.total + between
            backwards += 1
        microbatch = microbatch_of(index, pipeline)
        yield Pass(ordinal, phase, direction, vpp_rank, microbatch, live, highest)

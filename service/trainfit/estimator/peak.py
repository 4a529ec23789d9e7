"""The moments of a step on one pipeline rank, and the highest of them.

A moment is a forward or a backward of one chunk at one operation, while the activations of the
micro-batches in flight are kept. The maximum is taken over moments jointly: a sum of maxima is
not a peak.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from trainfit.estimator.legend import Legend
from trainfit.estimator.placement import Content
from trainfit.estimator.results import Peak
from trainfit.estimator.schedule import microbatch_of, turns
from trainfit.estimator.segment import Segment
from trainfit.resolve.plan import Plan


class PlacedSegment(NamedTuple):
    """A segment, the position in the chunk of the last layer in it, if it is made of layers, and
    that layer's kind. No backward runs through what stands before all that is trained.
    """

    segment: Segment
    layer: int | None
    kind: int | None = None
    runs_backward: bool = True


class Ledger(Protocol):
    """A framework's tables and prices of every stretch of a plan's model."""

    @property
    def plan(self) -> Plan: ...

    @property
    def sizes(self) -> Legend: ...

    def segments(self, content: Content) -> Iterator[PlacedSegment]:
        """The chunk in forward order."""

    def sent_bytes(self, content: Content) -> int:
        """The output of a chunk, where it is kept after it was sent to the next stage."""

    def batch_bytes(self, content: Content) -> int:
        """What of the micro-batch's data is alive while the chunk runs forward."""


class Highest(NamedTuple):
    """The highest moment of a chunk's forward or backward, from the chunk's start. `layer` is the
    position of a layer in the chunk.
    """

    moment: str
    operation: str
    layer: int | None
    kept: int
    borrowed: int

    total: int


NOTHING = Highest("optimizer_step", "", None, 0, 0, 0)


class PricedChunk(NamedTuple):
    """A chunk's saved bytes for one micro-batch, and its highest moments."""

    saved: int
    forward: Highest
    backward: Highest


class Activations(NamedTuple):
    """What a rank's activations take at its peak, and when that is."""

    kept: int
    borrowed: int
    pipeline: int
    """Gradients that the schedule holds between stages."""
    peak: Peak

    @property
    def total(self) -> int:
        return self.kept + self.borrowed + self.pipeline


def optimizer_step(borrowed: int) -> Activations:
    """The optimizer step: no activations, and what the step borrows."""
    return Activations(0, borrowed, 0, Peak("optimizer_step", "optimizer", None, None))


def price_chunk(ledger: Ledger, content: Content) -> PricedChunk:
    """Sum a chunk's segments and find its highest forward and backward moments."""
    live = 0
    forward = backward = NOTHING
    for placed in ledger.segments(content):
        segment = placed.segment
        if live + segment.forward.total > forward.total:
            forward = _highest(placed, live, backward=False)
        if placed.runs_backward and live + segment.backward.total > backward.total:
            backward = _highest(placed, live, backward=True)
        live += segment.saved
    data = ledger.batch_bytes(content)
    forward = forward._replace(borrowed=forward.borrowed + data, total=forward.total + data)
    return PricedChunk(live + ledger.sent_bytes(content), forward, backward)


def _highest(placed: PlacedSegment, live: int, *, backward: bool) -> Highest:
    segment = placed.segment
    moment = segment.backward if backward else segment.forward
    direction = "backward" if backward else "forward"
    return Highest(
        f"{segment.name}_{direction}",
        moment.operation,
        placed.layer,
        live + moment.kept,
        moment.borrowed,
        live + moment.total,
    )


def stage_peak(
    plan: Plan, act: int, chunks: list[PricedChunk], first_layers: list[int], rank: int
) -> Activations:
    """The highest moment of a rank over one cycle of its schedule. `act` is the bytes of one
    [n', h] tensor, `first_layers` are the indices in the model of each chunk's first layer.

    The schedule keeps a reference to the gradient it received until the next one comes, and to
    the one it sent until the next backward returns (schedules.py), so from its second turn on a
    rank holds one [n', h] tensor for each neighbour. During a backward the received one is that
    which flows along the residual stream.
    """
    received = act if rank < plan.layout.pp - 1 else 0
    sent = act if rank > 0 else 0
    saved = [chunk.saved for chunk in chunks]
    forward = [chunk.forward.total + sent + received for chunk in chunks]
    backward = [chunk.backward.total - chunk.saved + sent for chunk in chunks]
    highest, best = -1, None
    for turn in turns(plan, rank, saved):
        live, ahead, behind, _, first = turn
        total = live + forward[ahead] - (sent + received if first else 0)
        if total > highest:
            highest, best = total, (turn, ahead, chunks[ahead].forward, live)
        live += saved[ahead]
        total = live + backward[behind] - (sent if first else 0)
        if total > highest:
            highest, best = total, (turn, behind, chunks[behind].backward, live - saved[behind])
    assert best is not None
    turn, chunk, at, others = best
    return Activations(
        kept=others + at.kept,
        borrowed=at.borrowed,
        pipeline=highest - others - at.kept - at.borrowed,
        peak=Peak(
            at.moment,
            at.operation,
            None if at.layer is None else first_layers[chunk] + at.layer,
            microbatch_of(turn.ordinal, plan.layout),
        ),
    )

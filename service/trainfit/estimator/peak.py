"""The moments of a step on one pipeline rank, and the highest of them.

A moment is a forward or a backward of one chunk at one operation, while the activations of the
micro-batches in flight are kept. The maximum is taken over moments jointly: a sum of maxima is
not a peak.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

from trainfit.estimator.legend import Legend
from trainfit.estimator.placement import Content
from trainfit.estimator.results import Peak
from trainfit.estimator.schedule import Order, chunk_of, microbatch_of
from trainfit.estimator.segment import Segment
from trainfit.resolve.plan import Pipeline


class PlacedSegment(NamedTuple):
    """A segment, the position in the chunk of the last layer in it, if it is made of layers, and
    that layer's kind. No backward runs through what stands before all that is trained. So many
    bytes of the model are whole `beside` its forward, and `behind`, beside its backward.
    """

    segment: Segment
    layer: int | None
    kind: int | None = None
    runs_backward: bool = True
    beside: int = 0
    behind: int = 0


class Segments(Protocol):
    """A framework's tables and prices of every stretch of a model."""

    @property
    def sizes(self) -> Legend: ...

    def segments(self, content: Content) -> Iterator[PlacedSegment]:
        """The chunk in forward order."""

    def sent_bytes(self, content: Content) -> int:
        """The output of a chunk, where it is kept after it was sent to the next stage."""

    def received_bytes(self, content: Content) -> int:
        """The gradient that a chunk receives, where the schedule holds it to the backward's end."""

    def batch_bytes(self, content: Content) -> int:
        """What of the micro-batch's data is alive while the chunk runs forward."""


class PassPeak(NamedTuple):
    """The highest moment of a chunk's forward or backward, from the chunk's start. `layer` is the
    position of a layer in the chunk.
    """

    moment: str
    operation: str
    layer: int | None
    kept: int
    borrowed: int

    total: int

    def with_(self, more: int) -> "PassPeak":
        """The moment beside so many bytes more."""
        return self._replace(borrowed=self.borrowed + more, total=self.total + more)


class OverlappedPeak(NamedTuple):
    """The highest moment of one chunk's forward beside another's backward, from the latter's
    start, and which of the two it is of.
    """

    highest: PassPeak
    of_backward: bool


NOTHING = PassPeak("optimizer_step", "", None, 0, 0, 0)


class ChunkActivations(NamedTuple):
    """A chunk's saved bytes for one micro-batch, and its highest moments."""

    saved: int
    forward: PassPeak
    backward: PassPeak


class ActivationPeak(NamedTuple):
    """What a rank's activations take at its peak, and when that is."""

    kept: int
    borrowed: int
    pipeline: int
    """Gradients that the schedule holds between stages."""
    peak: Peak

    @property
    def total(self) -> int:
        return self.kept + self.borrowed + self.pipeline


def optimizer_step(borrowed: int) -> ActivationPeak:
    """The optimizer step: no activations, and what the step borrows."""
    return ActivationPeak(0, borrowed, 0, Peak("optimizer_step", "optimizer", None, None))


def chunk_activations(
    ledger: Segments,
    content: Content,
    segments: Callable[[Content], Iterator[PlacedSegment]] | None = None,
) -> ChunkActivations:
    """Sum a chunk's segments, the ledger's own or these, and find its highest forward and backward
    moments. An output that is kept is there until the backward returns; so is a gradient that was
    received, once the last segment has made another of it.
    """
    live = most_forward = most_backward = backwards = 0
    at_forward: tuple[PlacedSegment, int] | None = None
    at_backward, last = at_forward, at_forward
    for placed in (segments or ledger.segments)(content):
        segment = placed.segment
        forwards = live + segment.forward.total + placed.beside
        if forwards > most_forward:
            most_forward, at_forward = forwards, (placed, live)
        if placed.runs_backward:
            if last is not None and backwards > most_backward:
                most_backward, at_backward = backwards, last
            last, backwards = (placed, live), live + segment.backward.total + placed.behind
        live += segment.saved
    forward = NOTHING if at_forward is None else highest_of(*at_forward, backward=False)
    backward = NOTHING if at_backward is None else highest_of(*at_backward, backward=True)
    forward = forward.with_(ledger.batch_bytes(content))
    sent, received = ledger.sent_bytes(content), ledger.received_bytes(content)
    backward = backward.with_(received)
    if last is not None:
        at_last = highest_of(*last, backward=True, received=received > 0)
        backward = max(backward, at_last, key=attrgetter("total"))
    backward = backward.with_(sent)
    return ChunkActivations(live + sent, forward, backward)


def highest_of(
    placed: PlacedSegment, live: int, *, backward: bool, received: bool = False
) -> PassPeak:
    """The highest moment of a segment, with `live` bytes kept by those before it; whether who has
    `received` its gradient holds it meanwhile.
    """
    segment = placed.segment.held() if received else placed.segment
    moment = segment.backward if backward else segment.forward
    direction = "backward" if backward else "forward"
    whole = placed.behind if backward else placed.beside
    return PassPeak(
        f"{segment.name}_{direction}",
        moment.operation,
        placed.layer,
        live + moment.kept,
        moment.borrowed + whole,
        live + moment.total + whole,
    )


def stage_peak(
    pipeline: Pipeline,
    m: int,
    order: Order,
    act: int,
    chunks: Sequence[ChunkActivations],
    first_layers: Sequence[int],
    beside: Callable[[int | None, int | None], OverlappedPeak] | None = None,
) -> ActivationPeak:
    """The highest moment of a rank over one cycle of its schedule of m micro-batches. `act` is the
    bytes of one [n', h] tensor, `first_layers` are the indices in the model of each chunk's first
    layer. `beside` prices the forward of one chunk while the backward of another runs, or either
    alone, where the next turn's forward and a turn's backward run at the same time.

    The schedule keeps a reference to the gradient it received until the next one comes, and to
    the one it sent until the next backward returns (schedules.py), so from its second turn on a
    rank holds one [n', h] tensor for each neighbour. During a backward the received one is that
    which flows along the residual stream.
    """
    forwards = m * pipeline.vpp
    most = -1
    for turn in order.turns([chunk.saved for chunk in chunks]):
        live, forward, backward, ordinal, first, sent, received = turn
        if beside is None or first:
            alone = None if beside is None else beside(forward, None).highest
            at, between = alone or chunks[forward].forward, act * (sent + received)
            if live + between + at.total > most:
                most = live + between + at.total
                best = live, between, forward, ordinal, at
        live += chunks[forward].saved - chunks[backward].saved
        at, between, chunk = chunks[backward].backward, act * sent, backward
        if beside is not None:
            ahead = None if ordinal + 1 == forwards else chunk_of(ordinal + 1, pipeline)
            at, is_backward = beside(ahead, backward)
            if ahead is not None and not is_backward:
                chunk, ordinal = ahead, ordinal + 1
        if live + between + at.total > most:
            most = live + between + at.total
            best = live, between, chunk, ordinal, at
    others, between, chunk, ordinal, at = best
    layer = None if at.layer is None else first_layers[chunk] + at.layer
    peak = Peak(at.moment, at.operation, layer, microbatch_of(ordinal, pipeline))
    return ActivationPeak(others + at.kept, at.borrowed, between, peak)

"""What a chunk of a pipeline keeps, and the highest moment of each of its passes.

Where a chunk reads what another rank sends, its input stands in a buffer of the pipeline; so does
the gradient that comes back. What it makes is kept until its backward is over. Source:
torch/distributed/pipelining/stage.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.estimator.frameworks.pytorch.schedules import (
    ADDING,
    BACKWARD,
    FOR_INPUTS,
    FOR_WEIGHTS,
    FORWARD,
    Direction,
)
from trainfit.estimator.frameworks.pytorch.split_backward import BackwardHalves, SplitLedger
from trainfit.estimator.peak import PlacedSegment
from trainfit.estimator.placement import Content, held_by
from trainfit.resolve.plan import Pipeline
from trainfit.specs.parallelism import SPLIT_BACKWARD


class Ends(NamedTuple):
    """Where a chunk stands: whether it `begins` or `ends` the model, and whether its input is
    `handed_from`, what it makes `handed_on` to, a chunk of the same rank, where it is that one's
    buffer.
    """

    begins: bool
    ends: bool
    handed_from: bool
    handed_on: bool


def ends_of(pipeline: Pipeline, rank: int) -> list[Ends]:
    """Where the chunks of a rank stand."""
    held, last = held_by(pipeline, rank), pipeline.pp * pipeline.vpp - 1
    return [Ends(i == 0, i == last, i - 1 in held, i + 1 in held) for i in held]


class Reached(NamedTuple):
    """The highest moment of an action, above what the chunk's micro-batches keep when it starts.
    `layer` is the position of a layer in the chunk, `buffers` hold what the chunk has of whole
    weights and gradients just then.
    """

    moment: str
    operation: str
    layer: int | None
    kept: int
    borrowed: int
    buffers: int = 0

    @property
    def total(self) -> int:
        return self.kept + self.borrowed + self.buffers


NOTHING = Reached("", "", None, 0, 0)
"""A chunk without layers reaches nothing."""


class MicroBatchPasses(NamedTuple):
    """Bytes that a micro-batch keeps from its forward to its backward, those that it keeps between
    the halves of a backward, and the highest moments.
    """

    running: int
    deferred: int
    moments: Mapping[Direction, Reached]

    def change(self, direction: Direction) -> int:
        """Bytes that a micro-batch keeps more, or less, once an action has run."""
        match direction:
            case "forward":
                return self.running
            case "backward":
                return -self.running
            case "backward_for_inputs":
                return self.deferred - self.running
            case "backward_for_weights":
                return -self.deferred
            case _:
                return 0


class Layers(NamedTuple):
    """Bytes of each layer of a chunk: whole weights, where a forward lets go of them, and `fresh`
    gradients, where those that a backward for weights leaves are of a type of their own until they
    are added up. `outside` are such gradients of what stands behind the layers.
    """

    weights: Sequence[int] = ()
    fresh: Sequence[int] = ()
    outside: int = 0


NO_LAYERS = Layers()


class ChunkPasses:
    """Passes of the chunks of a plan's ranks."""

    def __init__(self, ledger: PytorchLedger) -> None:
        self._ledger = ledger
        splits = ledger.plan.layout.pipeline.schedule in SPLIT_BACKWARD
        self._split = SplitLedger(ledger) if splits else None

    def passes(self, content: Content, ends: Ends, layers: Layers = NO_LAYERS) -> MicroBatchPasses:
        """A chunk's passes, with what its layers have in buffers."""
        return _Chunk(self._ledger, self._split, content, ends, layers).passes()


class _Chunk:
    """One chunk's segments in forward order."""

    def __init__(
        self,
        ledger: PytorchLedger,
        split: SplitLedger | None,
        content: Content,
        ends: Ends,
        layers: Layers,
    ) -> None:
        self._ledger, self._split, self._content, self._ends = ledger, split, content, ends
        self._segments = list(ledger.segments(content))
        self._input = 0 if ends.begins else _kept_input(ledger, content)
        self._received = 0 if ends.ends else ledger.sizes.act
        self._output = 0 if ends.handed_on else ledger.sent_bytes(content)
        self._saved = sum(placed.segment.saved for placed in self._segments) - self._input
        self._layers = layers
        self._weights = list(accumulate(layers.weights, initial=0))
        """Unsharded weights of the layers before each, and of all."""
        self._fresh = list(accumulate(layers.fresh, initial=0))

    def passes(self) -> MicroBatchPasses:
        kept = self._saved + self._output
        moments = {
            FORWARD: _highest(self._forward()),
            BACKWARD: _above(kept, self._backward()),
        }
        if self._split is None:
            return MicroBatchPasses(kept, 0, moments)
        if self._ends.begins:
            return MicroBatchPasses(kept, kept, moments | {FOR_WEIGHTS: moments[BACKWARD]})
        halves = self._split.segments(self._content)
        deferred = kept + sum(half.captured for half in halves) - self._received
        if self._ends.ends:
            deferred -= self._output + self._split.loss
        for direction in (FOR_INPUTS, ADDING):
            moments[direction] = _above(kept, self._for_inputs(halves, direction))
        moments[FOR_WEIGHTS] = _above(deferred, self._for_weights(halves, deferred))
        return MicroBatchPasses(kept, deferred, moments)

    def _forward(self) -> Iterator[Reached]:
        live = -self._input
        for placed in self._segments:
            moment = placed.segment.forward
            kept = max(0, live + moment.kept)
            yield self._at(placed, FORWARD, moment.operation, kept, moment.borrowed)
            live += placed.segment.saved

    def _backward(self) -> Iterator[Reached]:
        """The gradient that the last layer reads stands in the pipeline's buffer."""
        live, received = self._saved + self._output, self._received
        for placed in reversed(self._segments):
            moment = placed.segment.backward
            live -= placed.segment.saved
            if placed.runs_backward:
                kept, borrowed = max(0, live + moment.kept), max(0, moment.borrowed - received)
                yield self._at(placed, BACKWARD, moment.operation, kept, borrowed)
            received = 0

    def _for_inputs(self, halves: list[BackwardHalves], direction: Direction) -> Iterator[Reached]:
        """Nothing is let go of; the last layer captures what stands in the pipeline's buffer."""
        live = self._saved + self._output - self._received
        for placed, half in zip(reversed(self._segments), reversed(halves), strict=True):
            moment = half.inputs
            kept = live + moment.kept
            yield self._at(placed, direction, moment.operation, kept, moment.borrowed)
            live += half.captured

    def _for_weights(self, halves: list[BackwardHalves], deferred: int) -> Iterator[Reached]:
        """Weights in the order of the chunk's parameters; fresh gradients stay. The graph, and what
        was made again for it, is gone with the product that comes last in forward.
        """
        live, stays = deferred, self._layers.outside > 0 or any(self._layers.fresh)
        for placed, half in zip(self._segments, halves, strict=True):
            last = placed is self._segments[-1]
            read = 0
            for number, weight in enumerate(half.products if last else half.weights):
                left = number * (half.remade - read) if half.remade else 0
                borrowed = max(half.again, half.remade + weight.gradient)
                kept = live + left
                yield self._at(placed, FOR_WEIGHTS, weight.operation, kept, borrowed)
                live += weight.gradient * stays - weight.captured
                live -= 0 if half.remade else weight.read
                read += weight.read
            live += len(half.weights) * (half.remade - read) if half.remade else 0

    def _at(
        self, placed: PlacedSegment, direction: Direction, operation: str, kept: int, borrowed: int
    ) -> Reached:
        named = FOR_INPUTS if direction == ADDING else direction
        buffers = self._whole(placed, direction)
        if direction == ADDING:
            buffers += self._not_yet_added(placed)
        name = f"{placed.segment.name}_{named}"
        return Reached(name, operation, placed.layer, kept, borrowed, buffers)

    def _whole(self, placed: PlacedSegment, direction: Direction) -> int:
        """Whole layers, where a forward lets go of them one by one and a backward does not, and
        gathers the one that is next.
        """
        first = self._position(placed)
        if direction == FOR_WEIGHTS:
            first = 0
        elif direction != FORWARD and placed.layer is not None:
            first = max(0, first - 1)
        return self._weights[-1] - self._weights[min(first, len(self._weights) - 1)]

    def _not_yet_added(self, placed: PlacedSegment) -> int:
        """Gradients of layers that this backward has not come to."""
        outside = 0 if placed.layer is not None else self._layers.outside
        return outside + self._fresh[min(self._position(placed) + 1, len(self._fresh) - 1)]

    def _position(self, placed: PlacedSegment) -> int:
        """How many layers stand before a segment."""
        if placed.layer is not None:
            return placed.layer
        return 0 if placed is self._segments[0] else len(self._content.kinds)


def _kept_input(ledger: PytorchLedger, content: Content) -> int:
    """What the first layer of a chunk keeps of the chunk's input [n', h] as it is."""
    act = ledger.sizes.act
    if not content.kinds or ledger.plan.step.offload_activations:
        return 0
    if ledger.is_recomputed(0, content.kinds[0]):
        return act
    return act if ledger.layer_tables[content.kinds[0]].reads_input else 0


def _highest(moments: Iterator[Reached]) -> Reached:
    return max(moments, key=lambda reached: reached.total, default=NOTHING)


def _above(kept: int, moments: Iterator[Reached]) -> Reached:
    """The highest, counted from what the micro-batch that is run keeps."""
    highest = _highest(moments)
    return highest._replace(kept=highest.kept - kept)

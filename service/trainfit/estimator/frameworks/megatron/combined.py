"""A chunk's forward that runs beside another chunk's backward, so that one computes while the
other exchanges tokens with its experts.

Layer by layer, from the first forward and from the last backward, their nodes run in turn. Between
its nodes a forward has what one hands to the next; a backward has the gradient that came to the
layer, which the schedule holds until all of it is through, those of the residual stream and of the
shared experts' output, which no node may add to, and the one on its way. Embedding and head run
apart. Sources: megatron/core/models/common/model_chunk_schedule_plan.py (run),
megatron/core/pipeline_parallel/combined_1f1b.py; torch/csrc/autograd/functions/accumulate_grad.h.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple, TypeVar

from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.nodes import Node, Nodes, nodes_of
from trainfit.estimator.ledger import Group
from trainfit.estimator.peak import NOTHING, OverlappedPeak, PlacedSegment, highest_of
from trainfit.estimator.placement import Content
from trainfit.estimator.segment import Segment, SegmentName, Table, add_up, walk
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Experts, Layer

Part = TypeVar("Part")

SLOTS = 4
BACKWARD_FIRST = (True, False, True, False, True, False, False, True)
"""In which order so many slots of a layer's backward and of another's forward run."""


class CombinedPass(NamedTuple):
    """A stretch's forward or backward, with what else there is of its chunk meanwhile."""

    placed: PlacedSegment
    beside: int
    backward: bool


class Slot(NamedTuple):
    """What of a chunk runs before the other one's turn, and the bytes that wait for the next."""

    passes: tuple[CombinedPass, ...]
    waiting: int


class ChunkParts(NamedTuple):
    """A chunk: what stands before its layers, the layers, what stands behind them."""

    before: list[PlacedSegment]
    layers: list["PlacedLayer"]
    behind: list[PlacedSegment]


class PlacedLayer(NamedTuple):
    """A layer, or a depth of multi-token prediction with what it `projects` first: its nodes with
    their segments, and the norm that comes behind.
    """

    nodes: Nodes
    first: PlacedSegment
    dispatch: PlacedSegment | None
    experts: PlacedSegment
    combine: PlacedSegment | None
    shares: bool
    projects: PlacedSegment | None = None
    norm: PlacedSegment | None = None


class Combined:
    """Estimates chunks that run beside each other under one plan, by the ledger's own segments or
    these.
    """

    def __init__(
        self,
        ledger: MegatronLedger,
        segments: Callable[[Content], Iterator[PlacedSegment]] | None = None,
    ) -> None:
        self._ledger, self._act = ledger, ledger.sizes.act
        self._whole = segments or ledger.segments
        self._parts = cache(self._divide)
        self._found = cache(self._highest)
        self._segments = cache(self._of_layer)

    def of(self, chunks: Sequence[Content]) -> Callable[[int | None, int | None], OverlappedPeak]:
        """Estimates the forward of one chunk of a rank beside the backward of another, or either
        alone.
        """
        return lambda ahead, behind: self._found(
            None if ahead is None else chunks[ahead], None if behind is None else chunks[behind]
        )

    def _highest(self, ahead: Content | None, behind: Content | None) -> OverlappedPeak:
        """The highest moment of a forward of `ahead` beside a backward of `behind`, from the
        latter's start.
        """
        ledger, live = self._ledger, 0
        data = 0 if ahead is None else ledger.batch_bytes(ahead)
        if behind is not None:
            live = ledger.sent_bytes(behind) + sum(
                placed.segment.saved for placed in _every(self._parts(behind))
            )
        best = OverlappedPeak(NOTHING, of_backward=False)
        for (placed, beside, backward), waiting in self._order(ahead, behind):
            if backward:
                live -= placed.segment.saved
            moment = highest_of(placed, live, backward=backward, received=True)
            moment = moment.with_(data + beside + waiting)
            if moment.total > best.highest.total:
                best = OverlappedPeak(moment, backward)
            if not backward:
                live += placed.segment.saved
        return best

    def _order(
        self, ahead: Content | None, behind: Content | None
    ) -> Iterator[tuple[CombinedPass, int]]:
        """The passes as they run, each with what of the other chunk waits meanwhile."""
        received = 0 if behind is None else self._ledger.received_bytes(behind)
        waiting = {False: 0, True: received}
        forth = [] if ahead is None else self._forward(ahead)
        back = [] if behind is None else self._backward(behind)
        for slot, backward in in_turn(forth, back):
            for each in slot.passes:
                yield each, waiting[not backward]
            waiting[backward] = slot.waiting

    def _forward(self, content: Content) -> list[Slot]:
        """What comes before the layers, four slots for each of them, what comes behind."""
        act, parts = self._act, self._parts(content)
        slots = [Slot(tuple([CombinedPass(each, 0, backward=False) for each in parts.before]), act)]
        for layer in parts.layers:
            slots += self._layer_forward(layer)
        slots.append(
            Slot(tuple([CombinedPass(each, 0, backward=False) for each in parts.behind]), 0)
        )
        return slots

    def _layer_forward(self, layer: PlacedLayer) -> Iterator[Slot]:
        """With what its nodes hand on, or the residual stream."""
        act, nodes, behind = self._act, layer.nodes, _some(layer.norm, 0)
        first, made = [*_some(layer.projects, 0), (layer.first, 0)], act * (not behind)
        if nodes.dispatch is None or layer.dispatch is None or layer.combine is None:
            yield _slot(first, act)
            yield Slot((), act)
            yield _slot([(layer.experts, 0)], act)
            yield _slot(behind, made)
            return
        permuted, arrived, output = [
            _bytes(each.handed) for each in (nodes.first, nodes.dispatch, nodes.experts)
        ]
        kept = nodes.dispatch.handed in nodes.experts.saved
        yield _slot(first, permuted)
        yield _slot([(layer.dispatch, permuted)], arrived)
        yield _slot([(layer.experts, 0 if kept else arrived)], output)
        yield _slot([(layer.combine, output), *behind], made)

    def _backward(self, content: Content) -> list[Slot]:
        """What comes behind the layers, four slots for each of them from the last, what comes
        before.
        """
        act, parts = self._act, self._parts(content)
        received = self._ledger.received_bytes(content)
        came = received or (1 + content.mtp_layers) * act
        behind = [CombinedPass(each, received, backward=True) for each in reversed(parts.behind)]
        slots = [Slot(tuple(behind), came)]
        for number, layer in enumerate(reversed(parts.layers)):
            held = received + act if number and received else max(came - number * act, act)
            slots += self._layer_backward(layer, held)
        last = received + act if parts.layers and received else act
        slots[-1] = slots[-1]._replace(waiting=last)
        before = [CombinedPass(each, last - act, backward=True) for each in reversed(parts.before)]
        slots.append(Slot(tuple(before), 0))
        return slots

    def _layer_backward(self, layer: PlacedLayer, held: int) -> Iterator[Slot]:
        """With the gradient that came to it `held`, and those of other predictions."""
        act, nodes = self._act, layer.nodes
        behind = _some(layer.norm, held - act)
        normed = act * len(behind)
        if layer.combine is None or layer.dispatch is None:
            yield _slot(behind, held + normed, backward=True)
            yield _slot([(layer.experts, held + normed)], held + act, backward=True)
            yield Slot((), held + act)
            first = [(layer.first, held + act), *_some(layer.projects, held + act)]
            yield _slot(first, held, backward=True)
            return
        branches = act * (1 + layer.shares)
        of_output, of_arrived, of_tokens = [
            held + branches + _bytes(each)
            for each in (nodes.experts.of_handed, nodes.experts.of_given, nodes.first.of_handed)
        ]
        behind.append((layer.combine, held + normed + branches))
        yield _slot(behind, of_output, backward=True)
        yield _slot([(layer.experts, of_output)], of_arrived, backward=True)
        yield _slot([(layer.dispatch, of_arrived)], of_tokens, backward=True)
        first = [(layer.first, of_tokens - act), *_some(layer.projects, of_tokens)]
        yield _slot(first, held, backward=True)

    def _divide(self, content: Content) -> ChunkParts:
        """The segments of a chunk, with its layers cut. The final norm belongs to the last layer of
        the decoder.
        """
        ledger, parts = self._ledger, ChunkParts([], [], [])
        for placed in self._whole(content):
            name, layers = placed.segment.name, parts.layers
            if placed.kind is not None:
                layers.append(self._placed(ledger.run.model.layer_kinds[placed.kind], placed))
            elif name == "mtp":
                layers.append(self._depth(placed))
            elif name == "final_norm" and layers:
                layers[-1] = layers[-1]._replace(norm=placed)
            else:
                (parts.before if name == "embedding" else parts.behind).append(placed)
        return parts

    def _placed(self, kind: Layer, placed: PlacedSegment) -> PlacedLayer:
        name = placed.segment.name
        nodes, segments = self._segments(kind, name)
        first, dispatch, experts, combine = [
            None if each is None else placed._replace(segment=each) for each in segments
        ]
        assert first is not None
        assert experts is not None
        shares = any(isinstance(e, Experts) and e.shared_ffn is not None for e in kind.blocks)
        return PlacedLayer(nodes, first, dispatch, experts, combine, shares)

    def _depth(self, placed: PlacedSegment) -> PlacedLayer:
        """A depth of multi-token prediction."""
        ledger, spec = self._ledger, self._ledger.run.model.mtp
        assert spec is not None
        layer = self._placed(ledger.run.model.layer_kinds[spec.layer_kind], placed)
        before, behind = [
            placed._replace(segment=walk("mtp", self._table(groups), gradient))
            for groups, gradient in zip(ledger.around_mtp(spec), (self._act, 0), strict=True)
        ]
        return layer._replace(projects=before, norm=behind)

    def _of_layer(self, kind: Layer, name: SegmentName) -> tuple[Nodes, tuple[Segment | None, ...]]:
        """The nodes of a kind of layer with their segments. The gradient of the residual stream
        flows where the layer's first part runs backward.
        """
        nodes = nodes_of([self._ledger.sublayer(each) for each in kind.sublayers])
        before_last = len([g for each in kind.sublayers[:-1] for g in self._ledger.sublayer(each)])

        def segment(node: Node | None, gradient: int = 0, before_last: int = 0) -> Segment | None:
            if node is None:
                return None
            return walk(name, self._table(node.groups), gradient, before_last)

        first = (
            segment(nodes.first)
            if nodes.dispatch is None
            else segment(nodes.first, self._act, before_last)
        )
        others = segment(nodes.dispatch), segment(nodes.experts), segment(nodes.combine)
        return nodes, (first, *others)

    def _table(self, groups: tuple[Group, ...]) -> Table:
        return add_up(groups, self._ledger.dropped)


def in_turn(forth: Sequence[Part], back: Sequence[Part]) -> Iterator[tuple[Part, bool]]:
    """The slots of a forward and of a backward as they run, and which each is of. Either has one
    before its layers, so many for each of these, and one behind.
    """
    both = ((forth, False), (back, True))
    yield from [(slots[0], backward) for slots, backward in both if slots]
    inner = {backward: iter(slots[1:-1]) for slots, backward in both}
    for _ in range(max(len(forth), len(back)) // SLOTS):
        for backward in BACKWARD_FIRST:
            for slot in islice(inner[backward], 1):
                yield slot, backward
    yield from [(slots[-1], backward) for slots, backward in both if slots]


def _every(parts: ChunkParts) -> Iterator[PlacedSegment]:
    yield from parts.before
    for layer in parts.layers:
        yield from [each for each in layer if isinstance(each, PlacedSegment)]
    yield from parts.behind


def _slot(
    passes: Iterable[tuple[PlacedSegment, int]], waiting: int, *, backward: bool = False
) -> Slot:
    return Slot(
        tuple([CombinedPass(placed, beside, backward) for placed, beside in passes]), waiting
    )


def _some(placed: PlacedSegment | None, beside: int) -> list[tuple[PlacedSegment, int]]:
    return [] if placed is None else [(placed, beside)]


def _bytes(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.bytes

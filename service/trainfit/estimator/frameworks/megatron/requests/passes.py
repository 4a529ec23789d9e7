"""How the tensors of a stretch come and go under Megatron, as its programs tell it.

The gradient of the residual stream is one tensor that every layer adds its own to, in place unless
the schedule still holds it. The first backward through a weight of some shape leaves the dummy of
its gradient. Sources:
torch/csrc/autograd/input_buffer.cpp (can_accumulate_inplace), TransformerEngine's module/base.py
(get_dummy_wgrad).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.layers import (
    captured_operations,
    graph_mask,
    norms_stand_apart,
    sublayer_groups,
)
from trainfit.estimator.ledger import BlockOperation, Group
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.run import MegatronStep
from trainfit.estimator.tensors import Role, Tensor
from trainfit.estimator.trace.moments import Moment, backward, forward, operations, saved, turns
from trainfit.estimator.trace.recorder import Passage
from trainfit.specs.blocks import Sublayer

Shape = tuple[int, int]
NO_MODULES: Mapping[str, Sequence[BlockOperation]] = {}


class BackwardMoment(NamedTuple):
    """A moment of a backward. With it a product's weight of this `shape` has its dummy gradient, or
    what it has last `adds` to the gradient of the residual stream. CUDA graphs may have it
    `captured`.
    """

    moment: Moment
    shape: Shape | None = None
    adds: bool = False
    captured: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MegatronStretch:
    """An embedding, a layer, a final norm or a head. `read` and `made` are the residual stream
    before and behind it, `of_read` and `of_made` its gradient there, `added` that behind it where
    the one that came may not be added to. `inputs` are what it is made again from. Of the moments
    forward that CUDA graphs capture, `captured` has the numbers; they read a `mask` beside.
    """

    kept: frozenset[Tensor]
    forward: tuple[Moment, ...]
    backward: tuple[BackwardMoment, ...]
    read: Tensor | None
    made: Tensor | None
    of_read: Tensor | None
    of_made: Tensor | None
    added: Tensor | None = None
    inputs: tuple[Tensor, ...] = ()
    captured: frozenset[int] = frozenset()
    mask: Tensor | None = None
    nodes: "NodeStretches | None" = None


class NodeStretches(NamedTuple):
    """The nodes of a layer, each a stretch; whether the layer `shares` experts."""

    first: MegatronStretch
    dispatch: MegatronStretch | None
    experts: MegatronStretch
    combine: MegatronStretch | None
    shares: bool


class ModelStretches:
    """The stretches of one model, each made once."""

    def __init__(self, ledger: MegatronLedger) -> None:
        self._ledger, self.run, self._act = ledger, ledger.run, ledger.sizes.act
        self._dropped = ledger.dropped
        self._dummies: dict[Shape, Tensor] = {}
        self.embedding = self._into_stream(ledger.embedding())
        self.final_norm = self._behind(ledger.final_norm(), hands=True)
        self.head = self._behind(ledger.head(), hands=False)
        self.depth = self._depth()
        """A depth of multi-token prediction."""
        self.layer = cache(self._layer)
        """The stretch of a kind of layer; likewise below, once for each that is asked for."""
        self.forward = cache(self._forward)
        """Forward with all that backward needs."""
        self.again = cache(self._again)
        """The same from its inputs, which are there."""
        self.dropping = cache(self._dropping)
        """Forward that keeps nothing, unless what it reads."""
        self.backward = cache(self._backward)
        """Backward that leaves dummies of new shapes, and whether the gradient that comes is held
        by somebody else.
        """

    def shapes(self, stretch: MegatronStretch) -> frozenset[Shape]:
        """The shapes of which its backward leaves dummies."""
        if not self.run.framework.gradient_accumulation_fusion:
            return frozenset()
        return frozenset([step.shape for step in stretch.backward if step.shape is not None])

    def of_read(self, stretch: MegatronStretch, *, held: bool) -> Tensor | None:
        """The gradient before a stretch."""
        return stretch.added if held and stretch.added is not None else stretch.of_read

    def dummy(self, shape: Shape) -> Tensor:
        """What stands for the gradient of a weight whose gradient was added up already."""
        if shape not in self._dummies:
            self._dummies[shape] = Tensor("dummy weight gradient", shape, 2, ())
        return self._dummies[shape]

    def _forward(self, stretch: MegatronStretch) -> Passage:
        read = () if stretch.read is None else (stretch.read,)
        made = () if stretch.made is None else (stretch.made,)
        return Passage(turns(stretch.forward, read, [*stretch.kept, *made]))

    def _again(self, stretch: MegatronStretch) -> Passage:
        made = () if stretch.made is None else (stretch.made,)
        return Passage(turns(stretch.forward, stretch.inputs, [*stretch.kept, *made]))

    def _dropping(self, stretch: MegatronStretch, keeps_input: bool) -> Passage:
        kept = [stretch.made, *(stretch.inputs if keeps_input else ())]
        given = [each for each in (stretch.read,) if each is not None]
        stays = [each for each in kept if each is not None]
        return Passage(turns(stretch.forward, given, stays))

    def _backward(self, stretch: MegatronStretch, new: frozenset[Shape], held: bool) -> Passage:
        moments: list[Moment] = []
        flow = stretch.of_made
        for moment, shape, adds, _ in stretch.backward:
            if adds and not (held and flow is stretch.of_made):
                continue
            dummy = (self.dummy(shape),) if shape in new else ()
            before = () if flow is None else (flow,)
            if adds:
                flow = stretch.added
            behind = (flow,) if adds and flow is not None else ()
            moments.append((*before, *moment, *dummy, *behind))
        given = [each for each in (*stretch.kept, stretch.of_made) if each is not None]
        stays = [self.of_read(stretch, held=held), stretch.of_made if held else None]
        kept = [each for each in stays if each is not None]
        return Passage(turns(moments, given, [*kept, *map(self.dummy, new)]))

    def _into_stream(
        self, groups: tuple[Group, ...], inputs: tuple[Tensor, ...] = ()
    ) -> MegatronStretch:
        """What makes the residual stream, and is the last reader of its gradient: the lookup, or
        the projection of a multi-token prediction.
        """
        sizes = self._ledger.sizes
        made, of_made = self.stream(), self.gradient()
        run = forward(groups)
        apart = sizes.n_gathered or sizes.b > 1 or self.run.step.hidden_dropout
        if not apart:  # It makes the stream itself.
            run = [tuple([each for each in moment if each in saved(groups)]) for moment in run]
        run.append((*run[-1][-1:], made))
        back = tuple(reversed_steps(groups))
        return MegatronStretch(
            saved(groups), tuple(run), back, None, made, None, of_made, inputs=inputs
        )

    def _depth(self) -> tuple[MegatronStretch, ...]:
        spec = self.run.model.mtp
        if spec is None or not self.run.mtp_layers:
            return ()
        before, behind = self._ledger.around_mtp(spec)
        inputs = tuple([each for each in before[0][0].reads if each.role is Role.BLOCK_INPUT])
        return (
            self._into_stream(before, inputs),
            self._layer(spec.layer_kind),
            self._behind(behind, hands=True),
        )

    def _behind(self, groups: tuple[Group, ...], *, hands: bool) -> MegatronStretch:
        """A final norm or a head: what its backward makes last is handed on, a norm is handed the
        gradient before that.
        """
        back = tuple(reversed_steps(groups))
        last, run = back[-1].moment, tuple(forward(groups))
        if not hands:
            return MegatronStretch(saved(groups), run, back, None, None, last[-1], None)
        read = block_input(groups)
        inputs = () if read is None else (read,)
        return MegatronStretch(
            saved(groups), run, back, read, None, last[-1], last[-2], None, inputs
        )

    def layer_of(self, kind: int, way: MegatronStep) -> MegatronStretch:
        """The stretch of a kind of layer that runs in another way."""
        step = partial(TransformerEngine, self._ledger.sizes, way)
        return self._in_groups(kind, lambda each: tuple(sublayer_groups(step(), each)))

    def _layer(self, kind: int) -> MegatronStretch:
        return self._in_groups(kind, self._ledger.sublayer)

    def _in_groups(
        self, kind: int, groups_of: Callable[[Sublayer], tuple[Group, ...]]
    ) -> MegatronStretch:
        """The residual stream and its gradient pass through."""
        layer = self.run.model.layer_kinds[kind]
        parts = [(each, groups_of(each)) for each in layer.sublayers]
        made, flow, added = self.stream(), self.gradient(), self.gradient()
        reads = [block_input(groups) or self.stream() for _, groups in parts]
        run: list[Moment] = []
        captured: set[int] = set()
        for (sublayer, groups), read, following in zip(
            parts, reads, [*reads[1:], made], strict=True
        ):
            moments = [(read, *moment) for moment in forward(groups)]
            graphed = self._captured(sublayer, groups)
            flags = [id(each) in graphed for each in operations(groups)]
            captured |= {len(run) + at for at, flag in enumerate((*flags, flags[-1])) if flag}
            run += [*moments, (*moments[-1][-1:], read, following)]
        back: list[BackwardMoment] = []
        for sublayer, groups in reversed(parts):
            back += self.sublayer_backward(sublayer, groups)
            back.append(BackwardMoment(back[-1].moment[-1:], adds=True, captured=back[-1].captured))
        every = [each for _, groups in parts for each in saved(groups)]
        kept = frozenset([each for each in every if self._dropped.isdisjoint(each.dropped_by)])
        inputs = reads[:1]
        return MegatronStretch(
            kept,
            tuple(run),
            tuple(back),
            reads[0],
            made,
            flow,
            flow,
            added,
            tuple(inputs),
            frozenset(captured),
            graph_mask(layer, self._ledger.sizes, self.run),
        )

    def sublayer_backward(
        self, sublayer: Sublayer, groups: tuple[Group, ...]
    ) -> Iterator[BackwardMoment]:
        """A norm in one module with the product behind it has the gradient that this one read
        until it is through.
        """
        inputs, *blocks = groups
        modules, captured = self.modules(groups), self._captured(sublayer, groups)
        yield from reversed_steps(blocks, modules, captured)
        incoming = () if norms_stand_apart(sublayer, self.run) else _incoming(blocks[0])
        for step in reversed_steps([inputs], modules, captured):
            yield step._replace(moment=(*incoming, *step.moment))

    def _captured(self, sublayer: Sublayer, groups: Sequence[Group]) -> frozenset[int]:
        """Which operations of a sublayer TransformerEngine's CUDA graphs capture."""
        if self.run.framework.cuda_graph_impl != "transformer_engine":
            return frozenset()
        return frozenset(map(id, captured_operations(sublayer, groups, self.run)))

    def modules(self, groups: tuple[Group, ...]) -> dict[str, list[BlockOperation]]:
        """The operations of each module that runs again by itself, which they do before the last of
        them runs backward.
        """
        modules: dict[str, list[BlockOperation]] = {}
        for operation in (each for group in groups for each in group):
            rows = [row.dropped_by for row in operation.tensors]
            names = [name for named in (operation.modules, *rows) for name in named]
            found = [name for name in names if name in self._dropped]
            if found:
                modules.setdefault(found[0], []).append(operation)
        return modules

    def stream(self) -> Tensor:
        return Tensor("residual stream", (self._act,), 1, (), Role.BLOCK_INPUT)

    def gradient(self) -> Tensor:
        return Tensor("gradient of the residual stream", (self._act,), 1, ())


def reversed_steps(
    groups: Sequence[Group],
    modules: Mapping[str, Sequence[BlockOperation]] = NO_MODULES,
    captured: frozenset[int] = frozenset(),
) -> Iterator[BackwardMoment]:
    """Operations backward, from the last to the first. Those of a module run forward again before
    the last of them runs backward, and leave what they had let go of.
    """
    again = {id(operations[-1]): operations for operations in modules.values()}
    for group in reversed(groups):
        for operation in reversed(group):
            module = [tuple(again.get(id(operation), ()))]
            for moment, each in zip(forward(module), operations(module), strict=True):
                yield BackwardMoment(moment, captured=id(each) in captured)
            graphed = id(operation) in captured
            *before, last = backward([(operation,)]) or [()]
            yield from [BackwardMoment(moment, captured=graphed) for moment in before]
            yield BackwardMoment(last, operation.gemm, captured=graphed)


def _incoming(group: Group) -> Moment:
    """What the first product of a group reads backward."""
    return group[0].backward.timeline[0][:1]


def block_input(groups: Sequence[Group]) -> Tensor | None:
    """What a stretch reads of the residual stream."""
    for group in groups:
        for operation in group:
            for each in operation.reads:
                if each.role is Role.BLOCK_INPUT:
                    return each
    return None

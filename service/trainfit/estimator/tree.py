"""The ledger of one pipeline rank as a tree of modules.

The weights and operations that an estimate sums up, arranged as the model runs them. Layers of
one kind in a row stand as one module.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from inspect import cleandoc
from itertools import chain, groupby
from typing import Literal

from trainfit.estimator.blocks import opaque
from trainfit.estimator.blocks.head import weights as head
from trainfit.estimator.blocks.layer import block_weights
from trainfit.estimator.blocks.mtp import weights as mtp
from trainfit.estimator.blocks.norm import weights as norm
from trainfit.estimator.blocks.tower.weights import towers
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.ledger import Group, Lifetime, Row, Weight
from trainfit.estimator.local_parameters import ParameterTable, divided_model, embedding_weights
from trainfit.estimator.placement import Content, place
from trainfit.estimator.segment import add_up
from trainfit.estimator.symbols import (
    shared_symbols,
    symbols_of,
)
from trainfit.resolve.plan import Plan
from trainfit.specs.blocks import Block, Layer, Norm, Opaque, Recurrence, Sublayer

LifetimeName = Literal["saved", "held", "forward", "backward", "gradient"]
LIFETIMES: Mapping[Lifetime, LifetimeName] = {
    Lifetime.SAVED: "saved",
    Lifetime.HELD: "held",
    Lifetime.FORWARD: "forward",
    Lifetime.BACKWARD: "backward",
    Lifetime.GRADIENT: "gradient",
}


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """A tensor of an operation, named with its shape in symbols. `dropped` is one that would be
    saved and is made again, or fetched, in backward. Where the operation is known by its program,
    `bytes` are the product of `shape` and `element_bytes`, rounded up; where it is known by a
    table alone, neither is shown.
    """

    name: str
    bytes: int
    lifetime: LifetimeName
    dropped: bool
    shape: tuple[int, ...] | None = None
    element_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Module:
    """A part of a stage; with children it is their sum.

    `parameters` are those over all ranks of the stage, `parameters_per_gpu` those on one GPU.
    `saved_bytes` is what one micro-batch keeps for backward on one GPU. All are of `count` alike.

    A leaf is either a weight, whose `split` is how the ranks of the stage share it, or an
    operation with the `tensors` that one of its alike makes. A block has the `symbols` that their
    shapes name besides the shared ones, and `about` says what they follow and where it was read.
    """

    name: str
    parameters: int
    parameters_per_gpu: int
    saved_bytes: int
    children: tuple["Module", ...] = ()
    count: int = 1
    split: str | None = None
    tensors: tuple[KeptTensor, ...] = ()
    symbols: dict[str, int] = field(default_factory=dict)
    about: str = ""

    def times(self, count: int, built: int | None = None) -> "Module":
        """So many of this module taken as one; `built` have weights, or all."""
        own = count if built is None else built
        return replace(
            self,
            parameters=self.parameters * own,
            parameters_per_gpu=self.parameters_per_gpu * own,
            saved_bytes=self.saved_bytes * count,
            children=tuple(child.times(count, own) for child in self.children),
            count=self.count * count,
        )


def module_tree(plan: Plan, rank: int) -> Module:
    """What pipeline rank `rank` holds: its chunks where it has several, their modules else."""
    table = _Modules(plan)
    chunks = [
        _sum(
            f"chunk {placement.vpp_rank}",
            table.chunk(placement.content, placement.layers),
        )
        for placement in place(plan)[rank]
    ]
    parts = chunks if len(chunks) > 1 else chunks[0].children
    return _sum(f"stage {rank}", parts)


class _Modules:
    """Modules of the plan's model."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ledger = framework_of(plan).ledger(plan, symbolic=True)
        self._shared = shared_symbols(self._ledger.sizes)
        self._parameters = ParameterTable(divided_model(plan))

    def chunk(self, content: Content, layers: range) -> Iterator[Module]:
        """Follows ParameterTable.chunk for what a chunk owns and Ledger.segments for what it
        saves.
        """
        plan, ledger, model = self._plan, self._ledger, self._plan.model
        if content.embedding_weights:
            saves = ledger.embedding() if content.embedding else ()
            weights = embedding_weights(divided_model(plan))
            yield self._block("embedding", weights, saves)
        if content.embedding:
            for extra in model.extras:
                yield _sum(extra.name, self._leaves(opaque.weights(extra), ()))
            yield from self._leaves(towers(model, divided=plan.layout.divides_towers), ())
        yield from self._layers(content, layers)
        if content.final_norm:
            yield self._norms("final norm", model.final_norms, ledger.final_norm())
        if content.mtp_layers:
            yield self._multi_token_prediction(content)
        if content.output_layer:
            weights = head.weights(
                model.output_layer, plan.vocabulary_rows, copy_of_embedding=content.head_copy
            )
            yield self._block("head", weights, ledger.head() * (1 + plan.mtp_layers))

    def _layers(self, content: Content, layers: range) -> Iterator[Module]:
        """Runs of layers of one kind. A layer that is recomputed keeps its input at most, one that
        no gradient reaches nothing.
        """
        saved = {
            placed.layer: placed.segment.saved
            for placed in self._ledger.segments(content)
            if placed.layer is not None
        }
        again_at = self._ledger.is_recomputed
        of_layers = (
            (kind, again_at(position, kind), bool(saved.get(position)))
            for position, kind in enumerate(content.kinds)
        )
        for (kind, again, saves), run in groupby(enumerate(of_layers), lambda at: at[1]):
            positions = [position for position, _ in run]
            name = _run_name([layers[position] for position in positions])
            layer = self._layer(self._plan.model.layer_kinds[kind], saves=saves and not again)
            children = list(layer.times(len(positions)).children)
            if again:
                kept = sum(saved.get(position, 0) for position in positions)
                children.append(Module("inputs kept for recompute", 0, 0, kept))
            yield _sum(f"{name} ({layer.name})", children)

    def _multi_token_prediction(self, content: Content) -> Module:
        spec = self._plan.model.mtp
        assert spec is not None
        projection, *_, final = self._ledger.mtp()
        again = self._ledger.recomputes_mtp
        own = () if again else (projection, final)
        layer = self._layer(self._plan.model.layer_kinds[spec.layer_kind], saves=not again)
        weights = mtp.weights(spec, self._plan.model.hidden_size)
        children = [self._block("mtp", weights, own), layer]
        if again:
            segments = (placed.segment for placed in self._ledger.segments(content))
            kept = next(segment.saved for segment in segments if segment.name == "mtp")
            children.append(Module("inputs kept for recompute", 0, 0, kept))
        depths = content.mtp_layers
        return _sum("multi-token prediction", children).times(depths, spec.built(depths))

    def _layer(self, layer: Layer, *, saves: bool) -> Module:
        parts = [part for each in layer.sublayers for part in self._sublayer(each, saves=saves)]
        names = [_name(block) for each in layer.sublayers for block in each.blocks]
        return _sum(" + ".join(names), parts)

    def _sublayer(self, sublayer: Sublayer, *, saves: bool) -> Iterator[Module]:
        """What the blocks read, the blocks, what comes behind them, as the ledger has them."""
        blocks = sublayer.blocks
        groups = self._ledger.sublayer(sublayer)
        inputs, *inside = [(group,) if saves else () for group in groups]
        yield self._norms("norm" if sublayer.norms else "residual", sublayer.norms, inputs)
        for block, saved in zip(blocks, inside, strict=False):
            weights = block_weights(block, self._plan.model.hidden_size)
            module = self._block(block.kind, weights, saved)
            yield replace(module, name=_name(block))
        behind = tuple(group for after in inside[len(blocks) :] for group in after)
        if sublayer.post_norms or behind:
            yield self._norms("output", sublayer.post_norms, behind)

    def _norms(self, name: str, norms: Iterable[Norm], groups: tuple[Group, ...]) -> Module:
        """Norms as one module without parts."""
        weights = (norm.weights(each, name) for each in norms)
        module = self._block("norm", weights, groups)
        tensors = tuple(tensor for child in module.children for tensor in child.tensors)
        return replace(module, name=name, children=(), tensors=tensors)

    def _block(self, kind: str, weights: Iterable[Weight], groups: tuple[Group, ...]) -> Module:
        """A block, with what is said of the table of its kind."""
        table = self._ledger.tables.get(kind)
        about = cleandoc(table.__doc__ or "") if table is not None else ""
        symbols = symbols_of(groups, self._shared)
        return replace(_sum(kind, self._leaves(weights, groups)), about=about, symbols=symbols)

    def _leaves(self, weights: Iterable[Weight], groups: tuple[Group, ...]) -> Iterator[Module]:
        """A leaf for every weight and for every operation."""
        for weight in weights:
            local = self._parameters.local([weight])
            here = local.dense + local.expert
            yield Module(weight.name, local.whole, here, 0, split=weight.split.value)
        for operation in chain.from_iterable(groups):
            ((sums,),) = add_up(((operation,),), self._ledger.dropped)
            tensors = tuple(map(self._kept, operation.tensors))
            yield Module(operation.name, 0, 0, sums.saved, tensors=tensors)

    def _kept(self, row: Row) -> KeptTensor:
        tensor, lifetime, _ = row
        dropped = not self._ledger.dropped.isdisjoint(tensor.dropped_by)
        return KeptTensor(
            tensor.formula,
            tensor.bytes,
            LIFETIMES[lifetime],
            lifetime is Lifetime.SAVED and dropped,
            tuple(map(int, tensor.shape)),
            float(tensor.width),
        )


def _sum(name: str, parts: Iterable[Module]) -> Module:
    children = tuple(parts)
    return Module(
        name,
        sum(child.parameters for child in children),
        sum(child.parameters_per_gpu for child in children),
        sum(child.saved_bytes for child in children),
        children,
    )


def _name(block: Block) -> str:
    match block:
        case Recurrence():
            return block.flavour
        case Opaque():
            return block.name
        case _:
            return block.kind


def _run_name(layers: list[int]) -> str:
    first, last = layers[0], layers[-1]
    return f"layer {first}" if first == last else f"layers {first}–{last} x{len(layers)}"

"""What the programs of PyTorch modules come to: their operations by bytes, and what is asked of a
stretch as a whole. Each is work for `compiled`.
"""

from itertools import chain
from types import ModuleType
from typing import NamedTuple

from trainfit.estimator.blocks.moe.grouped import ROUTED
from trainfit.estimator.frameworks.pytorch import ends
from trainfit.estimator.frameworks.pytorch.begun import Begun, seen
from trainfit.estimator.frameworks.pytorch.checkpointing import kept_outputs
from trainfit.estimator.frameworks.pytorch.layers import run_layer
from trainfit.estimator.ledger import BlockOperation, Group, Lifetime, OperationKind
from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.run import PytorchWay
from trainfit.estimator.segment import Sums, Table, add_up
from trainfit.estimator.tensors import Role
from trainfit.specs.architecture import Embedding
from trainfit.specs.blocks import Layer, Norm

DROPPED: frozenset[str] = frozenset()
"""No module drops tensors by itself: layers are checkpointed as a whole."""


class LayerTable(NamedTuple):
    """A layer: its operations by their groups, and in bytes what it holds beside them."""

    table: Table
    before_last: int
    """Groups of all sublayers but the last."""
    held: int
    """While its last block runs forward."""
    cached: int
    """Until the forward of the whole model returns."""
    narrowed: int
    """Copies that autocast makes of its weights."""
    chosen: int
    """Outputs that are kept where it is checkpointed by operations."""
    holds_input: bool
    """Its frame holds what its first sublayer reads, which no operation saves."""
    saves_input: bool
    """It saves what it reads of the residual stream as it is, which a checkpoint of it keeps."""
    reads_input: bool
    """What it reads of the residual stream stays as it is, whatever it is saved for."""
    experts: tuple[int, int]
    """Its routed experts are its operations from the first to before the second place."""
    saving: int
    """How many operations there are to the last that saves anything, a product its weight."""
    before_saved: int
    """Gradients that its backward has made before it reads anything that was saved."""

    @property
    def operations(self) -> list[Sums]:
        return [sums for group in self.table for sums in group]


def layer_table(
    sizes: PytorchLegend, way: PytorchWay, experts: ModuleType, layer: Layer, begun: Begun
) -> LayerTable:
    ran = run_layer(layer, sizes, way, experts)
    groups = seen(ran, layer, sizes, begun)
    operations = tuple(chain.from_iterable(groups))
    rows = [row for operation in operations for row in operation.tensors]
    inputs = [
        row
        for operation in groups[0]
        for row in operation.tensors
        if row.tensor.role is Role.BLOCK_INPUT and row.bytes == sizes.act
    ]
    return LayerTable(
        add_up(groups, DROPPED),
        before_last=sum(ran.counts[:-1]),
        held=ran.held,
        cached=ran.cached,
        narrowed=sum([row.bytes for row in rows if row.role is Role.CACHED_BY_AUTOCAST]),
        chosen=kept_outputs(groups, way.step),
        holds_input=bool(ran.stream[0]),
        saves_input=any(row.lifetime is Lifetime.SAVED for row in inputs),
        reads_input=any(row.role is Role.BLOCK_INPUT for row in inputs),
        experts=_routed(operations),
        saving=_last(operations),
        before_saved=_before_saved(operations[-1]),
    )


def _routed(operations: Group) -> tuple[int, int]:
    routed = [place for place, each in enumerate(operations) if ROUTED in each.modules]
    return (routed[0], routed[-1] + 1) if routed else (0, 0)


def _last(operations: Group) -> int:
    saving = [place for place, each in enumerate(operations) if _saves(each)]
    return saving[-1] + 1 if saving else 0


def _before_saved(operation: BlockOperation) -> int:
    """Bytes that the operation that runs backward first begins with, without what it saved."""
    first, saved = operation.backward.timeline[0], operation.backward.saved
    return sum([each.bytes for each in first]) if saved and not set(first) & set(saved) else 0


def _saves(operation: BlockOperation) -> bool:
    return operation.kind is OperationKind.PRODUCT or any(
        row.lifetime is Lifetime.SAVED for row in operation.tensors
    )


class EndTables(NamedTuple):
    """The norm before the head, the head, and the bytes of all that its products make."""

    final_norm: Table
    head: Table
    logits: int


def end_tables(
    sizes: PytorchLegend, way: PytorchWay, final_norms: tuple[Norm, ...], in_forward: bool
) -> EndTables:
    final_norm, head = ends.norm_and_head(sizes, way, final_norms, in_forward=in_forward)
    logits = sum([each.output_bytes for each in head if each.kind is OperationKind.PRODUCT])
    return EndTables(add_up((final_norm,), DROPPED), add_up((head,), DROPPED), logits)


class EmbeddingTable(NamedTuple):
    """The embedding, and bytes that the forward of the whole model holds besides."""

    table: Table
    cached: int


def embedding_table(
    sizes: PytorchLegend, way: PytorchWay, of: Embedding, rotated: int, masks: int
) -> EmbeddingTable:
    group, cached = ends.embedding(sizes, way, of, rotated, masks)
    return EmbeddingTable(add_up((group,), DROPPED), cached)

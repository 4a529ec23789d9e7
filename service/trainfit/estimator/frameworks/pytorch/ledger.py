"""The ledger of a model of PyTorch modules: its segments in forward order.

Each kind of layer is estimated once per plan, whatever the number of layers that are of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from types import ModuleType
from typing import NamedTuple

from trainfit.estimator.blocks.embedding import pytorch as embedding
from trainfit.estimator.blocks.head import pytorch as head
from trainfit.estimator.blocks.tower.weights import MODULES
from trainfit.estimator.compiled import compiled
from trainfit.estimator.frameworks.pytorch import ends
from trainfit.estimator.frameworks.pytorch.begun import Begun, seen
from trainfit.estimator.frameworks.pytorch.checkpointing import remade
from trainfit.estimator.frameworks.pytorch.conventions import conventions_of
from trainfit.estimator.frameworks.pytorch.layers import (
    Ran,
    run_layer,
    run_sublayer,
    tables_of,
)
from trainfit.estimator.frameworks.pytorch.optimizers import borrowed_share
from trainfit.estimator.frameworks.pytorch.passing import gradients_pass, passing
from trainfit.estimator.frameworks.pytorch.tables import (
    DROPPED,
    LayerTable,
    embedding_table,
    end_tables,
    layer_table,
)
from trainfit.estimator.frameworks.pytorch.towers import with_tower
from trainfit.estimator.ledger import BlockOperation, Group, OperationKind
from trainfit.estimator.legend import in_symbols, pytorch_legend_of
from trainfit.estimator.peak import PlacedSegment
from trainfit.estimator.placement import Content
from trainfit.estimator.run import pytorch_way_of
from trainfit.estimator.segment import Segment, SegmentName, Sums, Table, rerun, walk
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.blocks import Experts, Sublayer


class StretchPlace(NamedTuple):
    """Where a stretch stands: of a layer its position in the chunk, its kind, and whether it runs
    `again` in backward. No backward runs through what stands before all that is trained.
    """

    name: SegmentName
    layer: int | None = None
    kind: int | None = None
    begun: Begun = "behind"
    again: bool = False
    first: bool = False
    """The layer that reads what the embedding makes."""

    @property
    def runs_backward(self) -> bool:
        return self.begun != "before"


class PlacedGroups(NamedTuple):
    """The operations of a stretch, and where it stands."""

    name: SegmentName
    groups: tuple[Group, ...]
    layer: int | None
    kind: int | None
    again: bool
    runs_backward: bool


class PytorchLedger:
    """segments of every stretch of the plan's model."""

    dropped = DROPPED

    def __init__(self, plan: PytorchPlan, *, symbolic: bool = False) -> None:
        self.plan = plan
        self.tables: Mapping[str, ModuleType] = {
            **tables_of(plan),
            "embedding": embedding,
            "head": head,
        }
        self.numbers = pytorch_legend_of(plan)
        self.sizes = in_symbols(self.numbers) if symbolic else self.numbers
        self._way, self._conventions = pytorch_way_of(plan), conventions_of(plan)
        self._passing = gradients_pass(plan)
        self._stepped = borrowed_share(plan) if plan.step.optimizer.in_backward else 0
        self._begun: dict[tuple[int, Begun, bool], Segment] = {}
        self._seen: dict[tuple[int, Begun], tuple[Group, ...]] = {}
        kinds = range(len(plan.model.layer_kinds))
        self.layer_tables = [self._layer_table(kind, "behind") for kind in kinds]
        self.layer_segments = [self._layer(kind, self.layer_tables[kind]) for kind in kinds]
        self._outside, self._logits = self._priced_ends()

    def _layer_table(self, kind: int, begun: Begun) -> LayerTable:
        layer = self.plan.model.layer_kinds[kind]
        made = compiled(layer_table, self._way, self._conventions.experts, layer, begun)
        table: LayerTable = made(self.numbers)
        return table

    @cached_property
    def checkpointed_segments(self) -> list[Segment]:
        """Layers of each kind that run again in backward."""
        tables = enumerate(self.layer_tables)
        return [self._run_again(kind, self.layer_segments[kind], table) for kind, table in tables]

    def _priced_ends(self) -> tuple[Mapping[SegmentName, Segment], int]:
        """What stands outside the layers, and the bytes of the logits."""
        model, plan = self.plan.model, self.plan
        in_forward = self._conventions.loss_in_forward
        norm, last, logits = compiled(end_tables, self._way, model.final_norms, in_forward)(
            self.numbers
        )
        rotated, masks = ends.rotated(plan), ends.masks(plan)
        first, cached = compiled(embedding_table, self._way, model.embedding, rotated, masks)(
            self.numbers
        )
        looked_up = self._segment("embedding", first)._replace(cached=cached)
        segments: Mapping[SegmentName, Segment] = {
            "embedding": with_tower(looked_up, self.numbers, plan),
            "final_norm": self._segment("final_norm", norm, gradient=0),
            "head": self._head_segment(last),
        }
        return segments, logits

    def _head_segment(self, table: Table) -> Segment:
        kinds = [sums.kind for group in table for sums in group]
        within = head.within_autocast(kinds, self.plan.step)
        return self._segment("head", table, gradient=0, within=within)

    @cached_property
    def _ran(self) -> list[Ran]:
        """The programs of each kind of layer."""
        experts = self._conventions.experts
        kinds = self.plan.model.layer_kinds
        return [run_layer(kind, self.sizes, self._way, experts) for kind in kinds]

    @property
    def kinds(self) -> list[tuple[Group, ...]]:
        """What they leave behind."""
        return [ran.groups for ran in self._ran]

    def sublayer(self, sublayer: Sublayer) -> tuple[Group, ...]:
        return run_sublayer(sublayer, self.sizes, self._way, self._conventions.experts).groups

    recomputes_mtp = False

    def mtp(self) -> tuple[Group, ...]:
        """No framework of PyTorch's modules trains a multi-token prediction."""
        return ()

    def embedding(self) -> tuple[Group, ...]:
        return self._ends["embedding"]

    def final_norm(self) -> tuple[Group, ...]:
        return self._ends["final_norm"]

    def head(self) -> tuple[Group, ...]:
        return self._ends["head"]

    @cached_property
    def _ends(self) -> Mapping[SegmentName, tuple[Group, ...]]:
        """What programs outside the layers leave behind."""
        sizes, way, model = self.sizes, self._way, self.plan.model
        rotated, masks = ends.rotated(self.plan), ends.masks(self.plan)
        first, _ = ends.embedding(sizes, way, model.embedding, rotated, masks)
        in_forward = self._conventions.loss_in_forward
        norm, last = ends.norm_and_head(sizes, way, model.final_norms, in_forward=in_forward)
        return {"embedding": (first,), "final_norm": (norm,), "head": (last,)}

    def segments(self, content: Content) -> Iterator[PlacedSegment]:
        """The chunk in forward order."""
        for place in self._places(content):
            yield PlacedSegment(
                self._segment_of(place), place.layer, place.kind, place.runs_backward
            )

    def placed(self, content: Content) -> Iterator[PlacedGroups]:
        """The operations of the chunk in forward order."""
        for place in self._places(content):
            name, layer, kind, begun, again, _ = place
            groups = self._ends[name] if kind is None else self._groups(kind, begun)
            yield PlacedGroups(name, groups, layer, kind, again, place.runs_backward)

    def _places(self, content: Content) -> Iterator[StretchPlace]:
        begun = not content.embedding or self._embedding_has_gradient
        if content.embedding:
            trained = begun or self.sizes.prefix > 0
            yield StretchPlace("embedding", begun="behind" if trained else "before")
        for position, kind in enumerate(content.kinds):
            stands: Begun = "behind" if begun else "before"
            if not begun and self._trains(kind):
                begun, stands = True, "within"
            again = self.is_recomputed(position, kind) and begun
            first = content.embedding and position == 0
            yield StretchPlace(self._name(kind), position, kind, stands, again, first)
        if content.final_norm:
            yield StretchPlace("final_norm")
        if content.output_layer:
            yield StretchPlace("head")

    def _segment_of(self, place: StretchPlace) -> Segment:
        segment = self._any_segment_of(place)
        if place.first and place.again:
            kept = self.numbers.act - self.numbers.embedded
            return segment._replace(saved=segment.saved - kept) if kept else segment
        return segment

    def _any_segment_of(self, place: StretchPlace) -> Segment:
        """What it is wherever it stands."""
        name, _, kind, begun, again, _ = place
        if kind is None:
            return self._outside[name]
        if begun == "behind":
            return (self.checkpointed_segments if again else self.layer_segments)[kind]
        if (kind, begun, again) not in self._begun:
            table = self._layer_table(kind, begun)
            segment = self._layer(kind, table)
            segment = self._run_again(kind, segment, table) if again else segment
            self._begun[kind, begun, again] = segment
        return self._begun[kind, begun, again]

    def _groups(self, kind: int, begun: Begun) -> tuple[Group, ...]:
        if (kind, begun) not in self._seen:
            layer = self.plan.model.layer_kinds[kind]
            self._seen[kind, begun] = seen(self._ran[kind], layer, self.sizes, begun)
        return self._seen[kind, begun]

    def _name(self, kind: int) -> SegmentName:
        return "moe" if self.plan.model.layer_kinds[kind].has_experts else "dense"

    def sublayers(self, placed: PlacedGroups) -> list[tuple[Group, ...]]:
        """The groups of a layer by sublayer."""
        assert placed.kind is not None
        ends_ = list(accumulate(self._ran[placed.kind].counts, initial=0))
        return [placed.groups[start:end] for start, end in pairwise(ends_)]

    @property
    def _embedding_has_gradient(self) -> bool:
        adapters = self.sizes.adapters
        joined = adapters is not None and adapters.virtual is not None and not self.sizes.prefix
        towers = any(map(self.sizes.trains, MODULES.values()))
        reached = self.plan.model.encoder_parameters > 0 and towers
        trained = self.sizes.trains("embed_tokens") or joined or reached
        return trained or embedding.takes_gradient(self.plan.step)

    def _trains(self, kind: int) -> bool:
        """Whether gradients begin in a layer of this kind at the latest."""
        layer = self.plan.model.layer_kinds[kind]
        return any(sublayer.trainable for sublayer in layer.sublayers)

    def is_recomputed(self, position: int, kind: int) -> bool:
        """Whether the layer at this position of a chunk runs again in backward."""
        policy = self.plan.step.checkpointing
        chosen = policy.frozen or self._trains(kind)
        return policy.kind != "none" and (position + 1) % policy.every == 0 and chosen

    def graphed(self, sublayer: Sublayer, groups: tuple[Group, ...]) -> Sequence[BlockOperation]:  # noqa: ARG002
        """No graph of layers is captured."""
        return ()

    def rerun(self, groups: tuple[Group, ...]) -> list[BlockOperation]:
        """All of a layer, or what its selective checkpointing does not keep. A layer that is not
        reentrant stops when its last product has saved its input, before it multiplies
        (torch/utils/checkpoint.py: early_stop).
        """
        policy = self.plan.step.checkpointing
        if policy.kind == "operations":
            return remade(groups, self.plan.step)
        operations = [operation for group in groups for operation in group]
        kinds = [operation.kind for operation in operations]
        if policy.reentrant or OperationKind.PRODUCT not in kinds:
            return operations
        return operations[: len(kinds) - 1 - kinds[::-1].index(OperationKind.PRODUCT)]

    def _segment(
        self,
        name: SegmentName,
        table: Table,
        gradient: int | None = None,
        before_last: int = 0,
        within: int | None = None,
    ) -> Segment:
        """A stretch through which the gradient of the residual stream flows, unless said else. So
        many operations are `within` autocast, where it ends on the way.
        """
        if self._passing and not (name == "head" and self.plan.model.output_layer.tied):
            table = [[passing(sums, self._stepped) for sums in group] for group in table]
        if self.plan.step.offload_activations:
            table = [[_offloaded(sums) for sums in group] for group in table]
        gradient = self.numbers.act if gradient is None else gradient
        return walk(name, table, gradient, before_last, within)

    def _layer(self, kind: int, table: LayerTable) -> Segment:
        return self._framed(kind, table, table.table, table.before_last)

    def _framed(self, kind: int, of: LayerTable, table: Table, before_last: int = 0) -> Segment:
        """A layer, or a part of one, within its frame."""
        segment = self._segment(self._name(kind), table, before_last=before_last)
        borrowed = segment.forward.borrowed + of.held + of.cached
        forward = segment.forward._replace(borrowed=borrowed)
        return segment._replace(forward=forward, cached=of.cached)

    def around_experts(self, kind: int) -> tuple[Segment, Segment, Segment]:
        """What runs in a layer before its experts, the experts with the exchange of their rows, and
        what runs behind them.
        """
        of = self.layer_tables[kind]
        operations, (start, end) = of.operations, of.experts
        parts = operations[:start], operations[start:end], operations[end:]
        before, experts, behind = (self._framed(kind, of, [part]) for part in parts)
        return before, experts, behind

    def until_saved(self, kind: int) -> Segment:
        """The layer up to the last operation that saves anything, a product its weight at least:
        when it runs again, it stops there (torch/utils/checkpoint.py: early_stop).
        """
        of = self.layer_tables[kind]
        return self._framed(kind, of, [of.operations[: of.saving]])

    def _run_again(self, kind: int, segment: Segment, table: LayerTable) -> Segment:
        """A checkpointed layer keeps its input [n', h], and what its policy says; autocast keeps
        its narrow weights until it ends. A reentrant one has a backward of its own,
        whose caller holds what was made again and the gradient that came until it is through
        (torch/utils/checkpoint.py: CheckpointFunction.backward); another one runs again when the
        first tensor that was saved is read, beside the gradients that were made by then.
        """
        act, cached, before = self.numbers.act, 0, table.before_saved
        reentrant = self.plan.step.checkpointing.reentrant
        if reentrant:
            segment = segment.held()
        if table.holds_input:
            forward = segment.forward._replace(borrowed=segment.forward.borrowed - act)
            segment = segment._replace(forward=forward)
        if self.plan.step.checkpointing.kind == "operations":
            cached = table.chosen + self._reductions(kind) * act
        kept = act + cached
        if table.saves_input:
            cached += act
        output = act if reentrant else 0
        gradients = act if reentrant else act + before
        again = rerun(segment.name, [segment], kept, gradients, cached=cached, output=output)
        return again._replace(narrowed=table.narrowed if self._trains(kind) else 0)

    def _reductions(self, kind: int) -> int:
        """Tensors [n', h] of a layer that tensor-parallel ranks reduce, one behind each block, and
        that selective checkpointing keeps. Experts that are divided over ranks leave none.
        """
        if not self.sizes.gathers:
            return 0
        return sum(
            not isinstance(block, Experts) or self.sizes.e == 1 or block.shared_ffn is not None
            for block in self.plan.model.layer_kinds[kind].blocks
        )

    def received_bytes(self, content: Content) -> int:  # noqa: ARG002
        """What a stage receives stands in a buffer of the pipeline."""
        return 0

    def sent_bytes(self, content: Content) -> int:
        """What a stage makes waits for its backward (torch.distributed.pipelining): [n', h], or
        logits [n, V], of which tensor-parallel ranks have a share each where the loss is parallel.
        """
        if self.plan.layout.pipeline.pp == 1:
            return 0
        if not content.output_layer:
            return self.sizes.act
        return 0 if self.plan.step.collects_outputs else self.logits

    @property
    def sums_tied_gradients(self) -> bool:
        """Whether a tied matrix has the sum of its gradients by head and embedding."""
        return self.plan.model.output_layer.tied and self.sizes.trains("embed_tokens")

    @property
    def logits(self) -> int:
        """Bytes of the logits that the last stage makes of one micro-batch."""
        return self._logits if self.plan.step.loss_parallel else self._logits * self.sizes.t

    def batch_bytes(self, content: Content) -> int:  # noqa: ARG002
        """Masks are kept by the layers that read them."""
        return 0


def _offloaded(sums: Sums) -> Sums:
    """An operation whose saved tensors are on the host but for its own forward and backward."""
    forward, backward = sums.forward + sums.saved, sums.backward + sums.saved
    return sums._replace(saved=0, forward=forward, backward=backward)

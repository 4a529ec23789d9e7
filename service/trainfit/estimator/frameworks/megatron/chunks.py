"""The ledger of one model chunk under Megatron: its segments in forward order.

Each kind of layer is estimated once per plan, whatever the number of layers that are of it.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import add
from types import ModuleType
from typing import TypeVarTuple

from trainfit.estimator.blocks.embedding import transformer_engine as embedding
from trainfit.estimator.blocks.head import transformer_engine as head
from trainfit.estimator.blocks.moe.rows import rows_of
from trainfit.estimator.blocks.mtp import transformer_engine as mtp
from trainfit.estimator.compiled import compiled
from trainfit.estimator.frameworks.megatron.buffers import attention_mask, shared_buffers
from trainfit.estimator.frameworks.megatron.layers import (
    TABLES,
    captured_operations,
    graph_mask,
    is_captured,
    sublayer_groups,
)
from trainfit.estimator.frameworks.megatron.programs import (
    added_up,
    embed,
    norms,
    output,
    projection,
)
from trainfit.estimator.ledger import BlockOperation, Group
from trainfit.estimator.legend import in_symbols, legend_of
from trainfit.estimator.operations.low_rank import adapter_parameters
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.overhead import NOTHING
from trainfit.estimator.peak import PlacedSegment
from trainfit.estimator.placement import Content
from trainfit.estimator.results import Interval
from trainfit.estimator.run import MegatronRun
from trainfit.estimator.segment import Segment, SegmentName, Table, fetched, rerun, walk
from trainfit.specs.architecture import MultiTokenPrediction
from trainfit.specs.blocks import Experts, Layer, Sublayer

Given = TypeVarTuple("Given")
"""What a program is given besides the step that it is of."""


class MegatronLedger:
    """What every stretch of a model leaves behind, and what it takes: in numbers, or
    also in symbols, which takes longer.
    """

    tables: Mapping[str, ModuleType] = {**TABLES, "embedding": embedding, "head": head, "mtp": mtp}

    def __init__(self, run: MegatronRun, *, symbolic: bool = False) -> None:
        self.run = run
        self.way = run.way
        self.numbers = legend_of(run)
        self.sizes = in_symbols(self.numbers) if symbolic else self.numbers
        self._left_behind: dict[Hashable, tuple[Group, ...]] = {}
        self._tables: dict[Sublayer, Table] = {}
        model = run.model
        self._kinds = [self._layer_table(kind) for kind in model.layer_kinds]
        self.layer_segments = [
            self._layer_segment(kind, table)
            for kind, table in zip(model.layer_kinds, self._kinds, strict=True)
        ]
        self._reruns: dict[tuple[int, ...], Segment] = {}
        act = self.numbers.act
        embedded = walk("embedding", self._table(embed, model.embedding), act)
        self._input, self._pixel_bytes = _behind_tower(embedded, run)
        self._final_norm = walk("final_norm", self._table(norms, *model.final_norms), act)
        self._heads = self.heads()
        self._mtp_table = self._multi_token_prediction()
        self._mtp = self._mtp_segment()
        self.shared_buffers = shared_buffers(run, self.numbers)
        self._mask_bytes = attention_mask(run, self.numbers)

    @property
    def dropped(self) -> frozenset[str]:
        """Names of modules whose tensors are recomputed or offloaded."""
        return self.run.step.recompute.dropped

    @property
    def recomputes_mtp(self) -> bool:
        """Whether a layer of multi-token prediction is recomputed as a whole."""
        return self.run.step.recompute.full != "none"

    def is_recomputed(self, position: int, kind: int) -> bool:  # noqa: ARG002
        """Whether the layer at this position of a chunk is recomputed as a whole."""
        policy = self.run.step.recompute
        if policy.full == "block":
            return position < policy.num_layers
        return policy.full == "uniform"

    def rerun(self, groups: tuple[Group, ...]) -> list[BlockOperation]:
        """All of a layer."""
        return [operation for group in groups for operation in group]

    def graphed(self, sublayer: Sublayer, groups: tuple[Group, ...]) -> Sequence[BlockOperation]:
        """What Megatron or TransformerEngine captures of a sublayer by itself."""
        if self.run.framework.cuda_graph_impl in ("none", "full_iteration"):
            return ()
        return captured_operations(sublayer, groups, self.run)

    @cached_property
    def kinds(self) -> list[tuple[Group, ...]]:
        """What the programs of each kind of layer leave behind."""
        return [
            tuple([group for each in kind.sublayers for group in self.sublayer(each)])
            for kind in self.run.model.layer_kinds
        ]

    def sublayer(self, sublayer: Sublayer) -> tuple[Group, ...]:
        return self._run(sublayer_groups, sublayer)

    def embedding(self) -> tuple[Group, ...]:
        return self._run(embed, self.run.model.embedding)

    def final_norm(self) -> tuple[Group, ...]:
        return self._run(norms, *self.run.model.final_norms)

    def head(self) -> tuple[Group, ...]:
        return self._run(output)

    def mtp(self) -> tuple[Group, ...]:
        """One depth: projection, a layer, the norm before the head."""
        spec = self.run.model.mtp
        if spec is None:
            return ()
        before, behind = self.around_mtp(spec)
        return (*before, *self.kinds[spec.layer_kind], *behind)

    def around_mtp(self, spec: MultiTokenPrediction) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
        """What comes before the layer of a depth, and behind."""
        return self._run(projection, spec), self._run(norms, spec.norms[-1])

    def pools(self, contents: tuple[Content, ...], in_flight: int) -> Interval:
        """What CUDA graphs reserve above what is allocated without them: what the largest
        operation borrows there, which is borrowed beside them too; the inputs [n', h] of chunks in
        flight, which graphs copy, masks, and rows that they permute for experts; and at most their
        outputs, and what the driver takes.
        """
        framework, act = self.run.framework, self.numbers.act
        if framework.cuda_graph_impl == "none":
            return NOTHING
        if framework.cuda_graph_impl == "full_iteration":
            return Interval(0, 0, GRAPHS)
        received = act * in_flight * any(not content.embedding for content in contents)
        layers = max([len(content.kinds) for content in contents], default=0)
        inputs = [sum([self.graph_inputs[kind] for kind in each.kinds]) for each in contents]
        beside = received + max(inputs, default=0) * in_flight
        expected = min(self._borrowed_by_graphs) + beside
        return Interval(0, expected, expected + max(GRAPHS, act * in_flight * layers))

    @cached_property
    def graph_inputs(self) -> list[int]:
        """Bytes that graphs of a layer of each kind have for a micro-batch beside its activations:
        the mask of its attention, and rows [T, h] that they hand on to an all-to-all.
        """
        rows = map(self._permuted_rows, self.run.model.layer_kinds)
        return list(map(add, self.graph_masks, rows))

    @cached_property
    def graph_masks(self) -> list[int]:
        """Bytes of the mask that graphs of a layer of each kind read."""
        kinds = self.run.model.layer_kinds
        masks = [graph_mask(kind, self.numbers, self.run) for kind in kinds]
        return [0 if mask is None else mask.bytes for mask in masks]

    def _permuted_rows(self, layer: Layer) -> int:
        run, h = self.run, self.numbers.h
        captures = "moe_preprocess" in run.framework.cuda_graph_scope
        if not captures or run.routing.dispatcher != "alltoall":
            return 0
        return self.numbers.bytes * sum(
            rows_of(block, self.numbers, run.routing).sent * (block.latent or h)
            for block in layer.blocks
            if isinstance(block, Experts)
        )

    @cached_property
    def _borrowed_by_graphs(self) -> tuple[int, int]:
        """Most bytes that an operation borrows within what is captured, and beside it."""
        scope = self.run.framework.cuda_graph_scope
        most = {True: 0, False: _most(self._table(output))}
        for sublayer, table in self._tables.items():
            captured = is_captured(sublayer, scope)
            most[captured] = max(most[captured], _most(table))
        return most[True], most[False]

    def segments(self, content: Content) -> Iterator[PlacedSegment]:
        """The chunk in forward order. Losses of multi-token prediction come before the main one."""
        if content.embedding:
            yield PlacedSegment(self._input, None)
        yield from self._decoder(content.kinds)
        if content.final_norm:
            yield PlacedSegment(self._final_norm, None)
        if self._mtp is not None:
            for _ in range(content.mtp_layers):
                yield PlacedSegment(self._mtp, None)
        if content.output_layer:
            for head in self._heads:
                yield PlacedSegment(head, None)

    def layer_table(self, placed: PlacedSegment) -> Table | None:
        """The table of a segment that is one layer, of the decoder or of multi-token prediction."""
        if placed.kind is not None:
            return self._kinds[placed.kind]
        return self._mtp_table if placed.segment is self._mtp else None

    def sent_bytes(self, content: Content) -> int:
        """The output [n', h] of a chunk, where it is kept after it was sent to the next stage."""
        kept = not self.run.framework.deallocate_pipeline_outputs
        return self.sizes.act if kept and not content.output_layer else 0

    def received_bytes(self, content: Content) -> int:
        """The gradient [n', h] that the next stage sends."""
        return 0 if content.output_layer else self.sizes.act

    def batch_bytes(self, content: Content) -> int:
        """What of the micro-batch's data is alive while the chunk runs forward."""
        mask = self._mask_bytes if content.embedding or content.output_layer else 0
        return mask + (self._pixel_bytes if content.embedding else 0)

    def gemm_shapes(self, contents: tuple[Content, ...]) -> set[tuple[int, int]]:
        """Distinct (out, in) shapes of the weights that the chunks of a rank multiply with."""
        kinds = {kind for content in contents for kind in set(content.kinds)}
        tables = [self._kinds[kind] for kind in kinds]
        if self._mtp_table is not None and any(content.mtp_layers for content in contents):
            tables.append(self._mtp_table)
        flat = [sums for table in tables for group in table for sums in group]
        return {(sums.outputs, sums.inputs) for sums in flat if sums.outputs}

    def adapters(self) -> list[tuple[int, ...]]:
        """Parameters of each matrix of the adapters of a layer of each kind on one rank."""
        return [adapter_parameters(table) for table in self._kinds]

    def has_experts(self, content: Content) -> bool:
        """Whether any layer of a chunk has."""
        layers, mtp = self.run.model.layer_kinds, self.run.model.mtp
        kinds = set(content.kinds)
        if mtp is not None and content.mtp_layers:
            kinds.add(mtp.layer_kind)
        return any(layers[kind].has_experts for kind in kinds)

    def _run(
        self, program: Callable[[TransformerEngine, *Given], Iterator[Group]], *given: *Given
    ) -> tuple[Group, ...]:
        """What a program leaves behind. It runs once, however many layers have it and however
        often it is timed.
        """
        key = program, *given
        if key not in self._left_behind:
            left = program(TransformerEngine(self.sizes, self.way), *given)
            self._left_behind[key] = tuple(left)
        return self._left_behind[key]

    def _table(
        self, program: Callable[[TransformerEngine, *Given], Iterator[Group]], *given: *Given
    ) -> Table:
        """The bytes of its operations."""
        table: Table = compiled(added_up, self.way, program, *given)(self.numbers)
        return table

    def _layer_table(self, kind: Layer) -> Table:
        for each in kind.sublayers:
            if each not in self._tables:
                self._tables[each] = self._table(sublayer_groups, each)
        return [group for each in kind.sublayers for group in self._tables[each]]

    def _layer_segment(self, kind: Layer, table: Table) -> Segment:
        before_last = len(table) - len(self._tables[kind.sublayers[-1]])
        name: SegmentName = "moe" if kind.has_experts else "dense"
        return walk(name, table, self.numbers.act, before_last)

    def _multi_token_prediction(self) -> Table | None:
        spec = self.run.model.mtp
        if spec is None or not self.run.mtp_layers:
            return None
        before, behind = self._table(projection, spec), self._table(norms, spec.norms[-1])
        return [*before, *self._kinds[spec.layer_kind], *behind]

    def _mtp_segment(self) -> Segment | None:
        """A depth beside the gradients of the main prediction and of the depths before. Recomputed
        it keeps its hidden state and its embedding [n', h].
        """
        if self._mtp_table is None:
            return None
        act, depths = self.sizes.act, self.run.mtp_layers
        if not self.recomputes_mtp:
            return walk("mtp", self._mtp_table, (1 + depths) * act)
        part = walk("mtp", self._mtp_table, act).held()
        waiting = (1 + depths) * act
        return rerun("mtp", [part], 2 * act, waiting, read=2 * act, output=waiting)

    def heads(self, beside: int = 0) -> list[Segment]:
        """That of each prediction and the main one, which comes last and runs backward first: the
        gradient [n', h] that one makes waits until all have run. So many bytes are `beside` the
        backward of the product.
        """
        table, act = self._table(output), self.sizes.act
        if beside:
            table = [
                [
                    each._replace(backward=each.backward + beside) if each.outputs else each
                    for each in group
                ]
                for group in table
            ]
        waiting = reversed(range(1 + self.run.mtp_layers))
        return [walk("head", table, number * act) for number in waiting]

    def _decoder(self, kinds: tuple[int, ...]) -> Iterator[PlacedSegment]:
        policy = self.run.step.recompute
        if policy.full == "uniform":
            for first in range(0, len(kinds), policy.num_layers):
                group = kinds[first : first + policy.num_layers]
                yield PlacedSegment(self._rerun(group), first + len(group) - 1)
            return
        rerun_count = policy.num_layers if policy.full == "block" else 0
        on_host = self.run.framework.cpu_offloading_num_layers
        for position, kind in enumerate(kinds):
            again = position < rerun_count
            segment = self._rerun((kind,)) if again else self.layer_segments[kind]
            if position < on_host:
                segment = fetched(segment, ahead=position + 1 < on_host)
            yield PlacedSegment(segment, position, kind)

    def _rerun(self, kinds: tuple[int, ...]) -> Segment:
        if kinds not in self._reruns:
            self._reruns[kinds] = self._run_again(kinds)
        return self._reruns[kinds]

    def _run_again(self, kinds: tuple[int, ...]) -> Segment:
        """Full recompute keeps the input [n', h] of the group, which its first layer then saves, or
        a share of it; what the group makes again and the gradient that it is given are held until
        its backward is over. Source: megatron/core/tensor_parallel/random.py (CheckpointFunction).
        """
        *before, last = [self.layer_segments[kind] for kind in kinds]
        parts = [*before, last.held()]
        name, act = parts[-1].name, self.sizes.act
        if self.run.step.recompute.distribute_saved_activations:
            return rerun(name, parts, act // self.sizes.t, act, output=act)
        return rerun(name, parts, act, act, read=act, output=act)


GRAPHS = 3 * 2**30
"""What CUDA graphs may add in all: "TE scoped graphs add a few GB" (Megatron-Bridge's
skills/nemo-mbridge-perf-cuda-graphs)."""


def _most(table: Table) -> int:
    """Most bytes that an operation of a stretch borrows."""
    return max([max(s.forward + s.held, s.backward) for group in table for s in group], default=0)


def _behind_tower(embedding: Segment, run: MegatronRun) -> tuple[Segment, int]:
    """What a first stage begins with, and the bytes of pixels that it is sent. Towers are loaded
    where a model has one alone.
    """
    if not run.image_tokens:
        return embedding, 0
    from trainfit.estimator.frameworks.megatron.towers import with_tower

    return with_tower(embedding, run)

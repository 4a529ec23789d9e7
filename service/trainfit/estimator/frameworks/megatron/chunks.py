"""The ledger of one model chunk under Megatron: its segments in forward order.

Each kind of layer is estimated once per plan, whatever the number of layers that are of it.
"""

from collections.abc import Callable, Iterator, Mapping
from types import ModuleType

from trainfit.estimator.blocks.embedding import transformer_engine as embedding
from trainfit.estimator.blocks.head import transformer_engine as head
from trainfit.estimator.blocks.mtp import transformer_engine as mtp
from trainfit.estimator.blocks.norm import transformer_engine as norm
from trainfit.estimator.frameworks.megatron.buffers import attention_mask, shared_buffers
from trainfit.estimator.frameworks.megatron.layers import TABLES, sublayer_groups
from trainfit.estimator.ledger import Group, Operation
from trainfit.estimator.legend import in_symbols, legend_of
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.peak import PlacedSegment
from trainfit.estimator.placement import Content
from trainfit.estimator.run import MegatronRun
from trainfit.estimator.segment import Segment, SegmentName, Sums, add_up, rerun, walk
from trainfit.specs.architecture import MultiTokenPrediction
from trainfit.specs.blocks import Layer, Sublayer


class MegatronLedger:
    """What every stretch of a model leaves behind, and what it takes: in numbers, or
    also in symbols, which takes longer.
    """

    tables: Mapping[str, ModuleType] = {**TABLES, "embedding": embedding, "head": head, "mtp": mtp}

    def __init__(self, run: MegatronRun, *, symbolic: bool = False) -> None:
        self.run = run
        self.sizes = in_symbols(legend_of(run)) if symbolic else legend_of(run)
        self._sublayers: dict[Sublayer, tuple[Group, ...]] = {}
        self.kinds = [self._run_layer(kind) for kind in run.model.layer_kinds]
        self._sums = [self._add_up(groups) for groups in self.kinds]
        self.layer_segments = [
            walk("moe" if kind.has_experts else "dense", sums, self.sizes.act)
            for kind, sums in zip(run.model.layer_kinds, self._sums, strict=True)
        ]
        self._reruns: dict[tuple[int, ...], Segment] = {}
        self._input = self._segment("embedding", self.embedding(), self.sizes.act)
        self._final_norm = self._segment("final_norm", self.final_norm(), self.sizes.act)
        self._head = self._segment("head", self.head(), 0)
        self._mtp_sums = self._multi_token_prediction()
        self._mtp = self._mtp_segment()
        self._shapes = [_shapes(groups) for groups in self.kinds]
        self._mtp_shapes = _shapes(self.mtp()) if run.mtp_layers else set()
        self.shared_buffers = shared_buffers(run, self.sizes)
        self._mask_bytes = attention_mask(run, self.sizes)

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

    def rerun(self, groups: tuple[Group, ...]) -> list[Operation]:
        """All of a layer."""
        return [operation for group in groups for operation in group]

    def sublayer(self, sublayer: Sublayer) -> tuple[Group, ...]:
        """Run once, however many kinds of layers have it."""
        if sublayer not in self._sublayers:
            groups = tuple(sublayer_groups(sublayer, self.sizes, self.run))
            self._sublayers[sublayer] = groups
        return self._sublayers[sublayer]

    def embedding(self) -> tuple[Group, ...]:
        return self._run(lambda step: embedding.lookup(step, self.run.model.embedding))

    def final_norm(self) -> tuple[Group, ...]:
        def norms(step: TransformerEngine) -> None:
            for each in self.run.model.final_norms:
                norm.final(step, each)

        return self._run(norms)

    def head(self) -> tuple[Group, ...]:
        return self._run(head.head)

    def mtp(self) -> tuple[Group, ...]:
        """One depth: projection, a layer, the norm before the head."""
        spec = self.run.model.mtp
        if spec is None:
            return ()
        before, behind = self._around_mtp(spec)
        return (*before, *self.kinds[spec.layer_kind], *behind)

    def _around_mtp(
        self, spec: MultiTokenPrediction
    ) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
        return (
            self._run(lambda step: mtp.projection(step, spec)),
            self._run(lambda step: norm.final(step, spec.norms[-1])),
        )

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
            for _ in range(1 + self.run.mtp_layers):
                yield PlacedSegment(self._head, None)

    def layer_table(self, placed: PlacedSegment) -> list[list[Sums]] | None:
        """The table of a segment that is one layer, of the decoder or of multi-token prediction."""
        if placed.kind is not None:
            return self._sums[placed.kind]
        return self._mtp_sums if placed.segment is self._mtp else None

    def sent_bytes(self, content: Content) -> int:
        """The output [n', h] of a chunk, where it is kept after it was sent to the next stage."""
        kept = not self.run.framework.deallocate_pipeline_outputs
        return self.sizes.act if kept and not content.output_layer else 0

    def received_bytes(self, content: Content) -> int:
        """The gradient [n', h] that the next stage sends."""
        return 0 if content.output_layer else self.sizes.act

    def batch_bytes(self, content: Content) -> int:
        """What of the micro-batch's data is alive while the chunk runs forward."""
        return self._mask_bytes if content.embedding or content.output_layer else 0

    def gemm_shapes(self, contents: tuple[Content, ...]) -> set[tuple[int, int]]:
        """Distinct (out, in) shapes of the weights that the chunks of a rank multiply with."""
        kinds = {kind for content in contents for kind in set(content.kinds)}
        shapes = set().union(*[self._shapes[kind] for kind in kinds])
        if any(content.mtp_layers for content in contents):
            shapes |= self._mtp_shapes
        return shapes

    def has_experts(self, content: Content) -> bool:
        """Whether any layer of a chunk has."""
        layers, mtp = self.run.model.layer_kinds, self.run.model.mtp
        kinds = set(content.kinds)
        if mtp is not None and content.mtp_layers:
            kinds.add(mtp.layer_kind)
        return any(layers[kind].has_experts for kind in kinds)

    def _run_layer(self, kind: Layer) -> tuple[Group, ...]:
        return tuple([group for each in kind.sublayers for group in self.sublayer(each)])

    def _run(self, program: Callable[[TransformerEngine], None]) -> tuple[Group, ...]:
        """What one program leaves behind."""
        step = TransformerEngine(self.sizes, self.run)
        program(step)
        return (step.group(),)

    def _add_up(self, groups: tuple[Group, ...]) -> list[list[Sums]]:
        return add_up(groups, self.dropped)

    def _segment(self, name: SegmentName, groups: tuple[Group, ...], gradient: int) -> Segment:
        return walk(name, self._add_up(groups), gradient)

    def _multi_token_prediction(self) -> list[list[Sums]] | None:
        spec = self.run.model.mtp
        if spec is None or not self.run.mtp_layers:
            return None
        before, behind = self._around_mtp(spec)
        return [*self._add_up(before), *self._sums[spec.layer_kind], *self._add_up(behind)]

    def _mtp_segment(self) -> Segment | None:
        if self._mtp_sums is None:
            return None
        segment = walk("mtp", self._mtp_sums, self.sizes.act)
        if self.run.step.recompute.full == "none":
            return segment
        return rerun("mtp", [segment], 2 * self.sizes.act, self.sizes.act)

    def _decoder(self, kinds: tuple[int, ...]) -> Iterator[PlacedSegment]:
        policy = self.run.step.recompute
        if policy.full == "uniform":
            for first in range(0, len(kinds), policy.num_layers):
                group = kinds[first : first + policy.num_layers]
                yield PlacedSegment(self._rerun(group), first + len(group) - 1)
            return
        rerun_count = policy.num_layers if policy.full == "block" else 0
        for position, kind in enumerate(kinds):
            again = position < rerun_count
            segment = self._rerun((kind,)) if again else self.layer_segments[kind]
            yield PlacedSegment(segment, position, kind)

    def _rerun(self, kinds: tuple[int, ...]) -> Segment:
        if kinds not in self._reruns:
            self._reruns[kinds] = self._run_again(kinds)
        return self._reruns[kinds]

    def _run_again(self, kinds: tuple[int, ...]) -> Segment:
        """Full recompute keeps the input [n', h] of the group, which its first layer then saves, or
        a share of it; what the group makes again is held until its backward is over. Source:
        megatron/core/tensor_parallel/random.py (CheckpointFunction).
        """
        parts = [self.layer_segments[kind] for kind in kinds]
        name, act = parts[-1].name, self.sizes.act
        if self.run.step.recompute.distribute_saved_activations:
            return rerun(name, parts, act // self.sizes.t, act, output=act)
        return rerun(name, parts, act, act, read=act, output=act)


def _shapes(groups: tuple[Group, ...]) -> set[tuple[int, int]]:
    return {each.gemm for group in groups for each in group if each.gemm is not None}

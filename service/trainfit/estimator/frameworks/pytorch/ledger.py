"""The ledger of a model of PyTorch modules: its segments in forward order.

Each kind of layer is estimated once per plan, whatever the number of layers that are of it.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import accumulate, chain, pairwise
from math import ceil
from types import ModuleType
from typing import NamedTuple

from trainfit.estimator.blocks.embedding import pytorch as embedding
from trainfit.estimator.blocks.head import pytorch as head
from trainfit.estimator.blocks.moe.grouped import ROUTED
from trainfit.estimator.blocks.norm import pytorch as norms
from trainfit.estimator.blocks.virtual_tokens.pytorch import virtual_tokens
from trainfit.estimator.frameworks.pytorch.checkpointing import kept_outputs, remade
from trainfit.estimator.frameworks.pytorch.conventions import conventions_of
from trainfit.estimator.frameworks.pytorch.layers import (
    run_layer,
    run_sublayer,
    tables_of,
)
from trainfit.estimator.frameworks.pytorch.optimizers import borrowed_share
from trainfit.estimator.frameworks.pytorch.towers import with_tower
from trainfit.estimator.ledger import Group, Kind, Lifetime, Operation, Row
from trainfit.estimator.legend import in_symbols, pytorch_legend_of
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.peak import PlacedSegment
from trainfit.estimator.placement import Content
from trainfit.estimator.segment import Segment, SegmentName, Sums, add_up, rerun, walk
from trainfit.estimator.tensors import Role
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.blocks import Attention, Experts, LatentAttention, Sublayer


class PlacedGroups(NamedTuple):
    """The operations of a stretch. Of a layer its position in the chunk, its kind, and whether it
    runs `again` in backward. No backward runs through what stands before all that is trained.
    """

    name: SegmentName
    groups: tuple[Group, ...]
    layer: int | None = None
    kind: int | None = None
    again: bool = False
    runs_backward: bool = True


class PytorchLedger:
    """segments of every stretch of the plan's model."""

    dropped: frozenset[str] = frozenset()
    """No module drops tensors by itself: layers are checkpointed as a whole."""

    def __init__(self, plan: PytorchPlan, *, symbolic: bool = False) -> None:
        self.plan = plan
        self.tables: Mapping[str, ModuleType] = {
            **tables_of(plan),
            "embedding": embedding,
            "head": head,
        }
        sizes = pytorch_legend_of(plan)
        self.sizes = in_symbols(sizes) if symbolic else sizes
        self._passing = gradients_pass(plan)
        self._stepped = borrowed_share(plan) if plan.step.optimizer.in_backward else 0
        self._layers = [run_layer(kind, self.sizes, plan) for kind in plan.model.layer_kinds]
        self.kinds = [layer.groups for layer in self._layers]
        kinds = range(len(self.kinds))
        self.layer_segments = [self._layer(kind, self.kinds[kind]) for kind in kinds]
        self.checkpointed_segments = [
            self._run_again(kind, self.layer_segments[kind], self.kinds[kind]) for kind in kinds
        ]
        self._final_norm_groups, self._head_groups = self._run_end()
        self._embedding, masks = self._run_embedding()
        self._outside: Mapping[SegmentName, Segment] = {
            "embedding": with_tower(
                self._segment("embedding", self._embedding)._replace(cached=masks), sizes, plan
            ),
            "final_norm": self._segment("final_norm", self.final_norm(), gradient=0),
            "head": self._segment("head", self.head(), gradient=0),
        }

    def sublayer(self, sublayer: Sublayer) -> tuple[Group, ...]:
        return run_sublayer(sublayer, self.sizes, self.plan).groups

    recomputes_mtp = False

    def mtp(self) -> tuple[Group, ...]:
        """No framework of PyTorch's modules trains a multi-token prediction."""
        return ()

    def embedding(self) -> tuple[Group, ...]:
        return self._embedding

    def _run_embedding(self) -> tuple[tuple[Group, ...], int]:
        """The embedding, and what the forward of the whole model holds beside what is saved."""
        step = Modules(self.sizes, self.plan)
        embedding.lookup(step, self.plan.model.embedding, self.rotated, self._masks)
        return ((*virtual_tokens(self.sizes, self.plan), *step.group()),), step.cached

    @property
    def _masks(self) -> int:
        """Masks that eager attention reads: of all earlier tokens, of those in a window."""
        if self.plan.step.attention_backend != "eager":
            return 0
        return len({block.window is None for block in _attention_blocks(self.plan)})

    @property
    def rotated(self) -> int:
        """Dimensions of a head that positions rotate; 0 where none are."""
        return max(map(_rotated, _attention_blocks(self.plan)), default=0)

    def _run_end(self) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
        """The norm before the head, and the head."""
        sizes, step = self.sizes, Modules(self.sizes, self.plan)
        shape, width = (sizes.n_shard, sizes.h), sizes.residual_bytes
        for each in self.plan.model.final_norms:
            x = step.tensor("norm input", *shape, width=width, role=Role.BLOCK_INPUT)
            norms.norm(step, x, each, module="final_norm")
        x = step.tensor("norm output", *shape, width=width)
        step.end_group()
        in_forward = conventions_of(self.plan).loss_in_forward
        head.head(step, x, step.gathered(x), in_forward=in_forward)
        step.end_group()
        final_norm, last = step.groups()
        return (final_norm,), (last,)

    def final_norm(self) -> tuple[Group, ...]:
        return self._final_norm_groups

    def head(self) -> tuple[Group, ...]:
        return self._head_groups

    def segments(self, content: Content) -> Iterator[PlacedSegment]:
        """The chunk in forward order."""
        for name, groups, layer, kind, again, runs_backward in self.placed(content):
            if kind is None:
                segment = self._outside[name]
            elif groups is self.kinds[kind]:
                segments = self.checkpointed_segments if again else self.layer_segments
                segment = segments[kind]
            else:
                segment = self._layer(kind, groups)
                segment = self._run_again(kind, segment, groups) if again else segment
            yield PlacedSegment(segment, layer, kind, runs_backward)

    def placed(self, content: Content) -> Iterator[PlacedGroups]:
        """The operations of the chunk in forward order."""
        begun = not content.embedding or self._embedding_has_gradient
        if content.embedding:
            trained = begun or self.sizes.prefix > 0
            yield PlacedGroups("embedding", self._embedding, runs_backward=trained)
        for position, kind in enumerate(content.kinds):
            again, groups = self.is_recomputed(position, kind), self.kinds[kind]
            if not begun:
                begun = self._trains(kind)
                groups = self._before_gradients(kind) if begun else self._alone(kind)
                again = again and begun
            name: SegmentName = "moe" if self._has_experts(kind) else "dense"
            yield PlacedGroups(name, groups, position, kind, again, begun)
        if content.final_norm:
            yield PlacedGroups("final_norm", self._final_norm_groups)
        if content.output_layer:
            yield PlacedGroups("head", self._head_groups)

    def _has_experts(self, kind: int) -> bool:
        return self.plan.model.layer_kinds[kind].has_experts

    def sublayers(self, placed: PlacedGroups) -> list[tuple[Group, ...]]:
        """The groups of a layer by sublayer."""
        assert placed.kind is not None
        ends = list(accumulate(self._layers[placed.kind].counts, initial=0))
        return [placed.groups[start:end] for start, end in pairwise(ends)]

    @property
    def _embedding_has_gradient(self) -> bool:
        adapters = self.sizes.adapters
        joined = adapters is not None and adapters.virtual is not None and not self.sizes.prefix
        towers = any(map(self.sizes.trains, ("vision_tower", "multi_modal_projector")))
        reached = self.plan.model.encoder_parameters > 0 and towers
        trained = self.sizes.trains("embed_tokens") or joined or reached
        return trained or embedding.takes_gradient(self.plan)

    def _trains(self, kind: int) -> bool:
        """Whether gradients begin in a layer of this kind at the latest."""
        layer = self.plan.model.layer_kinds[kind]
        return any(sublayer.trainable for sublayer in layer.sublayers)

    def _alone(self, kind: int) -> tuple[Group, ...]:
        """A layer before all that is trained: autograd does not see it, and nothing is saved."""
        return tuple([_without_saved(group) for group in self.kinds[kind]])

    def _before_gradients(self, kind: int) -> tuple[Group, ...]:
        """The first layer that is trained, before which no gradient flows. Nothing is saved for a
        gradient of the input, with adapters nothing before the first one of a block.
        """
        layer = self.plan.model.layer_kinds[kind]
        first = layer.sublayers[0]
        end = self._layers[kind].counts[0]
        inputs, *blocks = self.kinds[kind][:end]
        if self.sizes.adapters is None:
            groups = [_without_input_gradient(inputs), *blocks]
        else:
            count = len(first.blocks)
            inside, behind = blocks[:count], blocks[count:]
            if not any(each.adapted for group in inside for each in group):
                behind = [_without_saved(group) for group in behind]
            groups = [_without_saved(inputs), *map(self._from_first_adapter, inside), *behind]
        return (*groups, *self.kinds[kind][end:])

    def _from_first_adapter(self, group: Group) -> Group:
        """Trained keys and values join in attention."""
        joins = Kind.ATTENTION if self.sizes.prefix else None
        adapted = [each.adapted or (joins is not None and each.kind is joins) for each in group]
        first = adapted.index(True) if True in adapted else len(group)
        return (*_without_saved(group[:first]), *group[first:])

    def is_recomputed(self, position: int, kind: int) -> bool:
        """Whether the layer at this position of a chunk runs again in backward."""
        policy = self.plan.step.checkpointing
        chosen = policy.frozen or self._trains(kind)
        return policy.kind != "none" and (position + 1) % policy.every == 0 and chosen

    def rerun(self, groups: tuple[Group, ...]) -> list[Operation]:
        """All of a layer, or what its selective checkpointing does not keep. A layer that is not
        reentrant stops when its last product has saved its input, before it multiplies
        (torch/utils/checkpoint.py: early_stop).
        """
        policy = self.plan.step.checkpointing
        if policy.kind == "operations":
            return remade(groups, compiled=self.plan.step.compiled)
        operations = [operation for group in groups for operation in group]
        kinds = [operation.kind for operation in operations]
        if policy.reentrant or Kind.PRODUCT not in kinds:
            return operations
        return operations[: len(kinds) - 1 - kinds[::-1].index(Kind.PRODUCT)]

    def _segment(
        self,
        name: SegmentName,
        groups: tuple[Group, ...],
        gradient: int | None = None,
        before_last: int = 0,
    ) -> Segment:
        """A stretch through which the gradient of the residual stream flows, unless told else."""
        table = add_up(groups, self.dropped)
        if self._passing and not (name == "head" and self.plan.model.output_layer.tied):
            table = [[_passing(sums, self._stepped) for sums in group] for group in table]
        if self.plan.step.offload_activations:
            table = [[_offloaded(sums) for sums in group] for group in table]
        return walk(name, table, self.sizes.act if gradient is None else gradient, before_last)

    def _layer(self, kind: int, groups: tuple[Group, ...]) -> Segment:
        name: SegmentName = "moe" if self._has_experts(kind) else "dense"
        ran = self._layers[kind]
        before_last = sum(ran.counts[:-1]) if len(groups) == sum(ran.counts) else 0
        segment = self._segment(name, groups, before_last=before_last)
        borrowed = segment.forward.borrowed + ran.held + ran.cached
        forward = segment.forward._replace(borrowed=borrowed)
        return segment._replace(forward=forward, cached=ran.cached)

    def around_experts(self, kind: int) -> tuple[Segment, Segment, Segment]:
        """What runs in a layer before its experts, the experts with the exchange of their rows, and
        what runs behind them.
        """
        operations = self._operations(kind)
        routed = [ROUTED in operation.modules for operation in operations]
        start, end = routed.index(True), len(routed) - routed[::-1].index(True)
        parts = operations[:start], operations[start:end], operations[end:]
        before, experts, behind = (self._layer(kind, (part,)) for part in parts)
        return before, experts, behind

    def until_saved(self, kind: int) -> Segment:
        """The layer up to the last operation that saves anything, a product its weight at least:
        when it runs again, it stops there (torch/utils/checkpoint.py: early_stop).
        """
        operations = self._operations(kind)
        saves = [
            each.kind is Kind.PRODUCT or any(t.lifetime is Lifetime.SAVED for t in each.tensors)
            for each in operations
        ]
        end = len(saves) - saves[::-1].index(True)
        return self._layer(kind, (operations[:end],))

    def _operations(self, kind: int) -> tuple[Operation, ...]:
        return tuple([operation for group in self.kinds[kind] for operation in group])

    def _run_again(self, kind: int, segment: Segment, groups: tuple[Group, ...]) -> Segment:
        """A checkpointed layer keeps its input [n', h], and what its policy says; autocast keeps
        its narrow weights until the end of the forward. A reentrant one has a backward of its own,
        whose caller holds what was made again and the gradient that came until it is through
        (torch/utils/checkpoint.py: CheckpointFunction.backward).
        """
        act, cached, narrowed = self.sizes.act, 0, 0
        reentrant = self.plan.step.checkpointing.reentrant
        if reentrant and segment.received is not None:
            segment = segment._replace(backward=segment.received)
        if self._trains(kind):
            operations = [operation for group in groups for operation in group]
            rows = chain.from_iterable([each.tensors for each in operations])
            narrowed = sum([row.bytes for row in rows if row.role is Role.CACHED_BY_AUTOCAST])
        if self._layers[kind].stream[0]:
            forward = segment.forward._replace(borrowed=segment.forward.borrowed - act)
            segment = segment._replace(forward=forward)
        if self.plan.step.checkpointing.kind == "operations":
            cached = kept_outputs(groups, compiled=self.plan.step.compiled)
            cached += self._reductions(kind) * act
        kept = act + cached
        if _saves_input(groups, act):
            cached += act
        output = act if reentrant else 0
        again = rerun(segment.name, [segment], kept, act, cached=cached, output=output)
        return again._replace(cached=narrowed)

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
        (operations,) = self.head()
        share = sum([each.output_bytes for each in operations if each.kind is Kind.PRODUCT])
        return share if self.plan.step.loss_parallel else share * self.sizes.t

    def batch_bytes(self, content: Content) -> int:  # noqa: ARG002
        """Masks are kept by the layers that read them."""
        return 0


def _saves_input(groups: tuple[Group, ...], act: int) -> bool:
    """Whether a layer saves what it reads of the residual stream as it is, which a checkpoint of
    the layer keeps already.
    """
    return any(
        row.lifetime is Lifetime.SAVED and row.tensor.role is Role.BLOCK_INPUT and row.bytes == act
        for operation in groups[0]
        for row in operation.tensors
    )


def _without_saved(group: Group) -> Group:
    return _without(group, lambda row: row.lifetime is Lifetime.SAVED)


def _without_input_gradient(group: Group) -> Group:
    return _without(group, lambda row: row.role is Role.FOR_INPUT_GRADIENT)


def _without(group: Group, dropped: Callable[[Row], bool]) -> Group:
    """The operations without some of their tensors."""
    return tuple(
        [
            each._replace(tensors=tuple([row for row in each.tensors if not dropped(row)]))
            for each in group
        ]
    )


def gradients_pass(plan: PytorchPlan) -> bool:
    """Whether new gradients are gone as soon as they are made: stepped by, copied into DDP's
    buckets, or added to those of earlier micro-batches. FSDP does so with those of a whole unit.
    A tied matrix has that of the head wait for that of the embedding.
    """
    if plan.layout.sharding in ("optim_grads", "optim_grads_params"):
        return False
    policy = plan.step.data_parallelism
    in_buckets = policy.gradient_as_bucket_view and plan.layout.dp * plan.layout.cp > 1
    return plan.step.optimizer.in_backward or plan.batch.num_microbatches > 1 or in_buckets


def _passing(sums: Sums, stepped: Fraction | int) -> Sums:
    """An operation whose weight gradient is gone when its backward is over. A step in backward
    borrows a share of it besides.
    """
    borrowed = sums.gradient + ceil(sums.gradient * stepped)
    return sums._replace(backward=sums.backward + borrowed, gradient=0)


def _offloaded(sums: Sums) -> Sums:
    """An operation whose saved tensors are on the host but for its own forward and backward."""
    forward, backward = sums.forward + sums.saved, sums.backward + sums.saved
    return sums._replace(saved=0, forward=forward, backward=backward)


def _attention_blocks(plan: PytorchPlan) -> Iterator[Attention | LatentAttention]:
    for block in plan.model.blocks:
        if isinstance(block, Attention | LatentAttention):
            yield block


def _rotated(block: Attention | LatentAttention) -> int:
    """Dimensions of a head that carry a rotary position."""
    if isinstance(block, LatentAttention):
        return block.qk_rope_head_dim
    return block.head_dim if block.rope else 0

"""The ledger of a model of PyTorch modules: its segments in forward order.

Each kind of layer is estimated once per plan, whatever the number of layers that are of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil
from types import ModuleType

from trainfit.estimator.blocks.embedding import pytorch as embedding
from trainfit.estimator.blocks.head import pytorch as head
from trainfit.estimator.blocks.linear.pytorch import cached_by_autocast
from trainfit.estimator.blocks.moe.exchanged import ROUTED
from trainfit.estimator.blocks.norm.pytorch import norm
from trainfit.estimator.blocks.virtual_tokens import pytorch as virtual_tokens
from trainfit.estimator.frameworks.pytorch.checkpointing import kept_outputs
from trainfit.estimator.frameworks.pytorch.layers import (
    held_in_cache,
    held_in_forward,
    holds_its_input,
    layer_operations,
    sublayer_operations,
    tables_of,
)
from trainfit.estimator.frameworks.pytorch.optimizers import borrowed_share
from trainfit.estimator.ledger import Group, Kind, Lifetime, Operation, Role, saved
from trainfit.estimator.legend import pytorch_legend_of
from trainfit.estimator.peak import PlacedSegment
from trainfit.estimator.placement import Content
from trainfit.estimator.segment import Segment, SegmentName, Sums, add_up, rerun, walk
from trainfit.estimator.symbols import block_symbols
from trainfit.resolve.plan import PytorchPlan
from trainfit.specs.blocks import Attention, Block, Experts, LatentAttention, Layer, Sublayer


class PytorchLedger:
    """segments of every stretch of the plan's model."""

    dropped: frozenset[str] = frozenset()
    """No module drops tensors by itself: layers are checkpointed as a whole."""

    def __init__(self, plan: PytorchPlan) -> None:
        self.plan = plan
        self.tables: Mapping[str, ModuleType] = {
            **tables_of(plan),
            "embedding": embedding,
            "head": head,
        }
        self.sizes = pytorch_legend_of(plan)
        self._passing = gradients_pass(plan)
        self._stepped = borrowed_share(plan) if plan.step.optimizer.in_backward else Fraction(0)
        self.kinds = [layer_operations(k, self.sizes, plan) for k in plan.model.layer_kinds]
        self.layer_segments = [
            self._layer(kind, groups)
            for kind, groups in zip(plan.model.layer_kinds, self.kinds, strict=True)
        ]
        self.checkpointed_segments = [
            self._run_again(kind, segment, groups)
            for kind, (segment, groups) in enumerate(
                zip(self.layer_segments, self.kinds, strict=True)
            )
        ]
        self._input = self._segment("embedding", self.embedding())
        self._final_norm = self._segment("final_norm", self.final_norm(), gradient=0)
        self._head = self._segment("head", self.head(), gradient=0)

    def sublayer(self, sublayer: Sublayer) -> tuple[Group, ...]:
        return tuple(sublayer_operations(sublayer, self.sizes, self.plan))

    recomputes_mtp = False

    def mtp(self) -> tuple[Group, ...]:
        """No framework of PyTorch's modules trains a multi-token prediction."""
        return ()

    @property
    def embedding_symbols(self) -> dict[str, int]:
        """The tables of positions are made with the embedding."""
        return {"d": self.rotated}

    def block_symbols(self, block: Block) -> dict[str, int]:
        """Tables have their symbols in words."""
        return block_symbols(block, self.sizes)

    def embedding(self) -> tuple[Group, ...]:
        model = self.plan.model
        looked_up = embedding.operation(model.embedding, self.rotated, self.sizes, self.plan)
        return ((*virtual_tokens.operations(self.sizes, self.plan), looked_up),)

    @property
    def rotated(self) -> int:
        """Dimensions of a head that positions rotate; 0 where none are."""
        return max(map(_rotated, _attention_blocks(self.plan)), default=0)

    def final_norm(self) -> tuple[Group, ...]:
        """The norm before the head, which keeps what it reads; gathered from tensor-parallel ranks
        it is kept here.
        """
        sizes = self.sizes
        kept = head.keeps_input(sizes, self.plan)
        own = replace(sizes, still=not sizes.trains("final_norm"))
        table = [
            norm(
                each,
                sizes.n_shard,
                own,
                by=self.plan.model.implementation,
                width=sizes.residual_bytes,
                kept=False,
            )
            for each in self.plan.model.final_norms
        ]
        if sizes.gathers:
            gathered = saved("gathered input [n, h]", sizes.h * sizes.n * sizes.bytes * kept)
            table.append(Operation("all_gather", (gathered,)))
        return (tuple(table),)

    def head(self) -> tuple[Group, ...]:
        return (head.operations(self.sizes, self.plan),)

    def segments(self, content: Content) -> Iterator[PlacedSegment]:
        """The chunk in forward order."""
        begun = not content.embedding or self._embedding_has_gradient
        if content.embedding:
            trained = begun or self.sizes.prefix > 0
            yield PlacedSegment(self._input, None, runs_backward=trained)
        for position, kind in enumerate(content.kinds):
            again = self.is_recomputed(position, kind)
            segment = (self.checkpointed_segments if again else self.layer_segments)[kind]
            if not begun:
                begun = self._trains(kind)
                segment = self._first(kind, again=again) if begun else self._alone(kind)
            yield PlacedSegment(segment, position, kind, begun)
        if content.final_norm:
            yield PlacedSegment(self._final_norm, None)
        if content.output_layer:
            yield PlacedSegment(self._head, None)

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

    def _alone(self, kind: int) -> Segment:
        """A layer before all that is trained: autograd does not see it, and nothing is saved."""
        groups = tuple([tuple(map(_without_saved, group)) for group in self.kinds[kind]])
        return self._layer(self.plan.model.layer_kinds[kind], groups)

    def _first(self, kind: int, *, again: bool) -> Segment:
        """The first layer that is trained, before which no gradient flows."""
        groups = self._before_gradients(kind)
        segment = self._layer(self.plan.model.layer_kinds[kind], groups)
        return self._run_again(kind, segment, groups) if again else segment

    def _before_gradients(self, kind: int) -> tuple[Group, ...]:
        """Nothing is saved for a gradient of the input, with adapters nothing before the first one
        of a block.
        """
        layer = self.plan.model.layer_kinds[kind]
        first, *others = layer.sublayers
        inputs, *blocks = self.sublayer(first)
        if self.sizes.adapters is None:
            groups = [tuple(map(_without_input_gradient, inputs)), *blocks]
        else:
            groups = [tuple(map(_without_saved, inputs)), *map(self._from_first_adapter, blocks)]
        return (*groups, *(group for each in others for group in self.sublayer(each)))

    def _from_first_adapter(self, group: Group) -> Group:
        """Trained keys and values join in attention."""
        joins = Kind.ATTENTION if self.sizes.prefix else None
        adapted = [
            self.sizes.adapts(each.name) or (joins is not None and each.kind is joins)
            for each in group
        ]
        first = adapted.index(True) if True in adapted else len(group)
        return (*map(_without_saved, group[:first]), *group[first:])

    def is_recomputed(self, position: int, kind: int) -> bool:
        """Whether the layer at this position of a chunk runs again in backward."""
        policy = self.plan.step.checkpointing
        chosen = policy.frozen or self._trains(kind)
        return policy.kind != "none" and (position + 1) % policy.every == 0 and chosen

    def _segment(
        self, name: SegmentName, groups: tuple[Group, ...], gradient: int | None = None
    ) -> Segment:
        """A stretch through which the gradient of the residual stream flows, unless told else."""
        table = add_up(groups, self.dropped)
        if self._passing and not (name == "head" and self.plan.model.output_layer.tied):
            table = [[_passing(sums, self._stepped) for sums in group] for group in table]
        if self.plan.step.offload_activations:
            table = [[_offloaded(sums) for sums in group] for group in table]
        return walk(name, table, self.sizes.act if gradient is None else gradient)

    def _layer(self, layer: Layer, groups: tuple[Group, ...]) -> Segment:
        segment = self._segment("moe" if layer.has_experts else "dense", groups)
        held = held_in_forward(layer, self.sizes, self.plan)
        cached = held_in_cache(layer, self.sizes, self.plan)
        forward = segment.forward._replace(borrowed=segment.forward.borrowed + held + cached)
        return segment._replace(forward=forward, cached=cached)

    def around_experts(self, kind: int) -> tuple[Segment, Segment, Segment]:
        """What runs in a layer before its experts, the experts with the exchange of their rows, and
        what runs behind them.
        """
        operations = self._operations(kind)
        routed = [ROUTED in operation.modules for operation in operations]
        start, end = routed.index(True), len(routed) - routed[::-1].index(True)
        parts = operations[:start], operations[start:end], operations[end:]
        layer = self.plan.model.layer_kinds[kind]
        before, experts, behind = (self._layer(layer, (part,)) for part in parts)
        return before, experts, behind

    def until_saved(self, kind: int) -> Segment:
        """The layer up to the last operation that saves anything: when it runs again, it stops
        there (torch/utils/checkpoint.py: early_stop).
        """
        operations = self._operations(kind)
        saves = [any(t.lifetime is Lifetime.SAVED for t in each.tensors) for each in operations]
        end = len(saves) - saves[::-1].index(True)
        return self._layer(self.plan.model.layer_kinds[kind], (operations[:end],))

    def _operations(self, kind: int) -> tuple[Operation, ...]:
        return tuple([operation for group in self.kinds[kind] for operation in group])

    def _run_again(self, kind: int, segment: Segment, groups: tuple[Group, ...]) -> Segment:
        """A checkpointed layer keeps its input [n', h], and what its policy says; autocast keeps
        its narrow weights until the end of the forward.
        """
        act, cached, narrowed = self.sizes.act, 0, 0
        if self._trains(kind):
            operations = [operation for group in groups for operation in group]
            narrowed = sum(cached_by_autocast(each, self.sizes) for each in operations)
        if holds_its_input(self.plan.model.layer_kinds[kind], self.sizes, self.plan):
            forward = segment.forward._replace(borrowed=segment.forward.borrowed - act)
            segment = segment._replace(forward=forward)
        if self.plan.step.checkpointing.kind == "operations":
            cached = kept_outputs(groups, compiled=self.plan.step.compiled)
            cached += self._reductions(kind) * act
        again = rerun(segment.name, [segment], act + cached, act, cached=cached)
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

    def sent_bytes(self, content: Content) -> int:
        """What a stage makes waits for its backward (torch.distributed.pipelining): [n', h], or
        logits [n, V], of which tensor-parallel ranks have a share each where the loss is parallel.
        """
        if self.plan.layout.pp == 1:
            return 0
        if not content.output_layer:
            return self.sizes.act
        return 0 if self.plan.step.collects_outputs else self.logits

    @property
    def logits(self) -> int:
        """Bytes of the logits that the last stage makes of one micro-batch."""
        (operations,) = self.head()
        share = sum([each.output for each in operations if each.kind is Kind.PRODUCT])
        return share if self.plan.step.loss_parallel else share * self.sizes.t

    def batch_bytes(self, content: Content) -> int:  # noqa: ARG002
        """Masks are kept by the layers that read them."""
        return 0


def _without_saved(operation: Operation) -> Operation:
    kept = tuple([each for each in operation.tensors if each.lifetime is not Lifetime.SAVED])
    return operation._replace(tensors=kept)


def _without_input_gradient(operation: Operation) -> Operation:
    kept = tuple([each for each in operation.tensors if each.role is not Role.FOR_INPUT_GRADIENT])
    return operation._replace(tensors=kept)


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


def _passing(sums: Sums, stepped: Fraction) -> Sums:
    """An operation whose weight gradient is gone when its backward is over. A step in backward
    borrows a share of it besides.
    """
    borrowed = ceil(sums.gradient * (1 + stepped))
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

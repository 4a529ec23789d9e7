"""A tower of images before the text's embedding, as one stretch with it.

Every rank runs it whole for the images of its samples, whatever it shares of the text.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, repeat
from typing import NamedTuple

from trainfit.estimator.blocks.tower import pytorch as tower
from trainfit.estimator.ledger import BlockOperation, Group, Lifetime
from trainfit.estimator.legend import PytorchLegend, pytorch_legend_of
from trainfit.estimator.local_adapters import adapters_of
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.run import PytorchWay, pytorch_way_of
from trainfit.estimator.segment import Moment, Segment, add_up, rerun, walk
from trainfit.estimator.tensors import Role
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.architecture import Implementation, Traits
from trainfit.specs.encoder import Encoder

Program = Callable[[Modules, Encoder], tuple[Group, ...]]
NOTHING: frozenset[str] = frozenset()
TOWER = "vision_tower"


def with_tower(embedding: Segment, sizes: PytorchLegend, plan: PytorchPlan) -> Segment:
    """The embedding behind the tower, where it is followed and a sample is known to have tokens of
    images.
    """
    encoder, tokens = plan.model.encoder, plan.batch.image_tokens
    if encoder is None or not tokens:
        return embedding
    return one_after_another([*_segments(encoder, tokens, sizes, plan), embedding])


def one_after_another(parts: list[Segment]) -> Segment:
    """Stretches as one: forward each beside what those before it save, backward beside the
    gradients that those behind it have left.
    """
    forward = backward = Moment("", 0, 0)
    saved = gradients = 0
    for part in parts:
        moment = part.forward
        forward = max(forward, moment._replace(kept=saved + moment.kept), key=_total)
        saved += part.saved
    left = saved
    for part in reversed(parts):
        left -= part.saved
        moment = part.backward
        kept = left + gradients + moment.kept
        backward = max(backward, moment._replace(kept=kept), key=_total)
        gradients += part.gradients
    last = parts[-1]
    cached = sum(part.cached for part in parts)
    return Segment(last.name, saved, forward, backward, gradients, cached, last.received)


def _total(moment: Moment) -> int:
    return moment.total


def bounded(plan: PytorchPlan) -> Encoder | None:
    """The tower whose activations are bounded: not one whose tokens are known, or whose attention
    makes all scores.
    """
    encoder, eager = plan.model.encoder, plan.step.attention_backend == "eager"
    return None if eager or plan.batch.image_tokens is not None else encoder


def most_bytes(encoder: Encoder, plan: PytorchPlan) -> int:
    """The tower's activations where every token of a micro-batch is of an image: what is kept, and
    one layer at work beside it, or the highest moment; and a mask of patches that see each other.
    """
    sizes = pytorch_legend_of(plan)
    tokens = plan.batch.seq_length // plan.layout.cp
    whole = one_after_another(list(_segments(encoder, tokens, sizes, plan)))
    own = _sizes(encoder, tokens, sizes)
    layer = add_up(tower.layer(Modules(own, way_of(encoder, plan)), encoder), NOTHING)
    at_work = sum(each.saved for group in layer for each in group)
    highest = max(whole.forward.total, whole.backward.total, whole.saved + at_work)
    masked = encoder.packed_qkv and plan.step.attention_backend == "sdpa"
    return highest + (own.n**2 if masked else 0)


def adapter_parameters(plan: PytorchPlan) -> int:
    """Elements of adapters of the tower's linears, whatever images there are."""
    encoder, sizes = plan.model.encoder, pytorch_legend_of(plan)
    if encoder is None or sizes.adapters is None:
        return 0
    own, way = _sizes(encoder, 1, sizes), way_of(encoder, plan)
    return sum(
        (each.times + each.unread)
        * adapters_of(chain(*add_up(_run(each, encoder, own, way), NOTHING)), own)
        for each in _stretches(encoder)
        if each.module not in sizes.frozen
    )


class TowerStretch(NamedTuple):
    """Part of a tower: its program, the name that it is frozen by, how often it is run, and how
    often besides for nobody.
    """

    program: Program
    module: str
    times: int
    unread: int = 0


def _stretches(encoder: Encoder) -> Iterator[TowerStretch]:
    """Patches, layers and projectors. Those of earlier layers run beside these, and their features
    enter the text's layers: they are kept as the last one's are.
    """
    yield TowerStretch(tower.patch_embedding, TOWER, 1)
    yield TowerStretch(tower.layer, TOWER, encoder.num_layers, encoder.unread_layers)
    if encoder.last_norm:
        yield TowerStretch(tower.last_norm, TOWER, 1)
    if encoder.adapter:
        yield TowerStretch(tower.adapter, TOWER, 1)
    yield TowerStretch(tower.projector, "multi_modal_projector", 1 + encoder.deep_mergers)


def _segments(
    encoder: Encoder, tokens: int, sizes: PytorchLegend, plan: PytorchPlan
) -> Iterator[Segment]:
    """The pixels, and each stretch of the tower as often as it is run."""
    own, way = _sizes(encoder, tokens, sizes), way_of(encoder, plan)
    yield walk("embedding", add_up(tower.pixels(Modules(own, way), encoder), NOTHING), own.act)
    reached = False
    for stretch in _stretches(encoder):
        groups = _run(stretch, encoder, own, way)
        trained = sizes.trains(stretch.module)
        adapted = any(operation.adapted for group in groups for operation in group)
        if not (reached or adapted):
            groups = _begun(groups, trained=trained)
        reached = reached or trained or adapted
        segment = walk("embedding", add_up(groups, NOTHING), own.act)
        again = stretch.program is tower.layer and plan.step.checkpointing.kind == "layers"
        if again and segment.saved:
            segment = rerun("embedding", [segment], own.act, own.act)
        yield from repeat(segment, stretch.times)


def _run(
    stretch: TowerStretch, encoder: Encoder, sizes: PytorchLegend, way: PytorchWay
) -> tuple[Group, ...]:
    """What a stretch leaves behind: nothing of what is frozen has an adapter."""
    adapters, module = sizes.adapters, stretch.module
    if adapters is not None and module in sizes.frozen:
        sizes = replace(sizes, adapters=replace(adapters, targets=NOTHING))
    return stretch.program(Modules(replace(sizes, still=not sizes.trains(module)), way), encoder)


def _sizes(encoder: Encoder, tokens: int, sizes: PytorchLegend) -> PytorchLegend:
    """The legend of a tower: its tokens are patches, and no rank has a part of them. Images are as
    large as each other, or all of a micro-batch as one.
    """
    images, patches = 1, sizes.b * tokens * encoder.patches_per_token
    if encoder.image_patches is not None:
        images = sizes.b * -(-tokens * encoder.patches_per_token // encoder.image_patches)
        patches = encoder.image_patches
    rows = patches + encoder.class_tokens
    return replace(
        sizes,
        h=encoder.hidden_size,
        b=images,
        s=rows,
        n=images * rows,
        n_shard=images * rows,
        n_gathered=0,
        t=1,
        c=1,
        e=1,
        x=1,
        gathers=False,
        prefix=0,
    )


def way_of(encoder: Encoder, plan: PytorchPlan) -> PytorchWay:
    """How a tower's programs run: of the text's model they ask how its norms scale."""
    traits = Traits(activation=encoder.activation)
    implementation = Implementation(norm_scale_dtype=plan.model.implementation.norm_scale_dtype)
    return pytorch_way_of(plan)._replace(traits=traits, implementation=implementation)


def _begun(groups: tuple[Group, ...], *, trained: bool) -> tuple[Group, ...]:
    """What autograd sees where no gradient flows on to what comes before: nothing before the first
    operation that is trained, and of that nothing for the gradient of its input.
    """
    begun, seen = False, []
    for group in groups:
        operations = []
        for each in group:
            starts = trained and any(row.lifetime is Lifetime.GRADIENT for row in each.tensors)
            operations.append(each if begun else _without_saved(each, starts=starts))
            begun = begun or starts
        seen.append(tuple(operations))
    return tuple(seen)


def _without_saved(operation: BlockOperation, *, starts: bool) -> BlockOperation:
    """All that is saved, or, where gradients start, what is saved for that of the input."""
    rows = [
        row
        for row in operation.tensors
        if row.lifetime is not Lifetime.SAVED
        or (starts and row.role is not Role.FOR_INPUT_GRADIENT)
    ]
    return operation._replace(tensors=tuple(rows))

"""A tower of images before the text's embedding, as one stretch with it.

Every rank runs it whole for the images of its samples, whatever it shares of the text.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat

from trainfit.estimator.blocks.tower import pytorch as tower
from trainfit.estimator.ledger import Group, Lifetime, Operation
from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.run import PytorchWay, pytorch_way_of
from trainfit.estimator.segment import Moment, Segment, add_up, rerun, walk
from trainfit.estimator.tensors import Role
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.architecture import Implementation, Traits
from trainfit.specs.encoder import Encoder

Program = Callable[[Modules, Encoder], tuple[Group, ...]]
NOTHING: frozenset[str] = frozenset()


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


def _segments(
    encoder: Encoder, tokens: int, sizes: PytorchLegend, plan: PytorchPlan
) -> Iterator[Segment]:
    """Patches, layers and projectors. Those of earlier layers run beside these, and their features
    enter the text's layers: they are kept as the last one's are.
    """
    own = _sizes(encoder, tokens, sizes)
    way = way_of(encoder, plan)
    reached = False

    def groups(program: Program, module: str) -> tuple[Group, ...]:
        trained = sizes.trains(module)
        made = program(Modules(replace(own, still=not trained), way), encoder)
        return made if reached or _is_adapted(made) else _begun(made, trained=trained)

    def segment(groups: tuple[Group, ...]) -> Segment:
        return walk("embedding", add_up(groups, NOTHING), own.act)

    yield segment(tower.pixels(Modules(own, way), encoder))
    yield segment(groups(tower.patch_embedding, "vision_tower"))
    reached = sizes.trains("vision_tower")
    layer = segment(groups(tower.layer, "vision_tower"))
    if plan.step.checkpointing.kind == "layers" and layer.saved:
        layer = rerun("embedding", [layer], own.act, own.act)
    yield from repeat(layer, encoder.num_layers)
    if encoder.last_norm:
        yield segment(groups(tower.last_norm, "vision_tower"))
    if encoder.adapter:
        yield segment(groups(tower.adapter, "vision_tower"))
    projector = segment(groups(tower.projector, "multi_modal_projector"))
    yield from repeat(projector, 1 + encoder.deep_mergers)


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


def _is_adapted(groups: tuple[Group, ...]) -> bool:
    return any(operation.adapted for group in groups for operation in group)


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


def _without_saved(operation: Operation, *, starts: bool) -> Operation:
    """All that is saved, or, where gradients start, what is saved for that of the input."""
    rows = [
        row
        for row in operation.tensors
        if row.lifetime is not Lifetime.SAVED
        or (starts and row.role is not Role.FOR_INPUT_GRADIENT)
    ]
    return operation._replace(tensors=tuple(rows))

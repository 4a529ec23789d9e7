"""A tower of PyTorch's modules in stretches, forward one after another, for whoever runs it.

Every rank runs it whole for the images of its samples, whatever it shares of the text.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, repeat
from typing import NamedTuple

from trainfit.estimator.blocks.tower import pytorch as tower
from trainfit.estimator.blocks.tower.weights import PROJECTOR_MODULE, TOWER_MODULE
from trainfit.estimator.ledger import BlockOperation, Group, Lifetime
from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.local_adapters import adapters_of
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.run import PytorchWay
from trainfit.estimator.segment import Moment, Segment, add_up, rerun, walk
from trainfit.estimator.tensors import Role
from trainfit.specs.architecture import Implementation, Traits
from trainfit.specs.encoder import Encoder

Program = Callable[[Modules, Encoder], tuple[Group, ...]]
NOTHING: frozenset[str] = frozenset()


class TowerStretch(NamedTuple):
    """Part of a tower: its program, the name that it is frozen by, how often it is run, and how
    often besides for nobody.
    """

    program: Program
    module: str
    times: int
    unread: int = 0


OF_LAYERS = TowerStretch(tower.layer, TOWER_MODULE, 1)


def stretches(encoder: Encoder) -> Iterator[TowerStretch]:
    """Patches, layers and projectors. Those of earlier layers run beside these, and their features
    enter the text's layers: they are kept as the last one's are.
    """
    yield TowerStretch(tower.patch_embedding, TOWER_MODULE, 1)
    if encoder.masked or encoder.rotary:
        yield TowerStretch(tower.places, TOWER_MODULE, 1)
    yield OF_LAYERS._replace(times=encoder.num_layers, unread=encoder.unread_layers)
    if encoder.last_norm:
        yield TowerStretch(tower.last_norm, TOWER_MODULE, 1)
    if encoder.adapter:
        yield TowerStretch(tower.adapter, TOWER_MODULE, 1)
    yield TowerStretch(tower.projector, PROJECTOR_MODULE, 1 + encoder.deep_mergers)


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
    cached, narrowed = sum(part.cached for part in parts), sum(part.narrowed for part in parts)
    return Segment(
        last.name,
        saved,
        forward,
        backward,
        gradients,
        cached,
        narrowed,
        received=last.received,
    )


def _total(moment: Moment) -> int:
    return moment.total


def with_pixels(
    encoder: Encoder, tokens: int, sizes: PytorchLegend, way: PytorchWay
) -> Iterator[Segment]:
    """The pixels, which a batch holds until the next one comes, and the tower."""
    own = sizes_of(encoder, tokens, sizes)
    given = tower.pixels(Modules(own, way_of(encoder, way)), encoder)
    yield walk("embedding", add_up(given, NOTHING), own.act)
    yield from segments(encoder, tokens, sizes, way)


def segments(
    encoder: Encoder, tokens: int, sizes: PytorchLegend, way: PytorchWay, *, leaves: bool = True
) -> Iterator[Segment]:
    """Each stretch of the tower as often as it is run. It `leaves` the gradients of its weights, or
    whoever adds them up elsewhere lets go of each at once.
    """
    own, way = sizes_of(encoder, tokens, sizes), way_of(encoder, way)
    reached = False
    for stretch in stretches(encoder):
        groups = run(stretch, encoder, own, way)
        trained = sizes.trains(stretch.module)
        adapted = _has_adapters(groups)
        if stretch.program is tower.places:
            read = trained or _has_adapters(run(OF_LAYERS, encoder, own, way))
            groups = groups if read else _begun(groups, trained=False)
        elif not (reached or adapted):
            groups = _begun(groups, trained=trained)
        reached = reached or trained or adapted
        if not leaves:
            groups = _added_elsewhere(groups)
        segment = walk("embedding", add_up(groups, NOTHING), own.act)
        again = stretch.program is tower.layer and way.step.checkpointing.kind == "layers"
        if again and segment.saved:
            segment = rerun("embedding", [segment], own.act, own.act)
        yield from repeat(segment, stretch.times)


def _has_adapters(groups: tuple[Group, ...]) -> bool:
    return any(operation.adapted for group in groups for operation in group)


def most_bytes(encoder: Encoder, tokens: int, sizes: PytorchLegend, way: PytorchWay) -> int:
    """What activations take where so many tokens of each sample are of images: what is kept, and
    one layer at work beside it, or the highest moment; and a mask of patches that see each other.
    """
    whole = one_after_another(list(with_pixels(encoder, tokens, sizes, way)))
    own = sizes_of(encoder, tokens, sizes)
    layer = add_up(tower.layer(Modules(own, way_of(encoder, way)), encoder), NOTHING)
    at_work = sum(each.saved for group in layer for each in group)
    highest = max(whole.forward.total, whole.backward.total, whole.saved + at_work)
    masked = encoder.packed_qkv and way.step.attention_backend == "sdpa"
    return highest + (own.n**2 if masked else 0)


def adapter_parameters(encoder: Encoder, sizes: PytorchLegend, way: PytorchWay) -> int:
    """Elements of adapters of the tower's linears, whatever images there are."""
    own, way = sizes_of(encoder, 1, sizes), way_of(encoder, way)
    return sum(
        (each.times + each.unread)
        * adapters_of(chain(*add_up(run(each, encoder, own, way), NOTHING)), own)
        for each in stretches(encoder)
        if each.module not in sizes.frozen
    )


def run(
    stretch: TowerStretch, encoder: Encoder, sizes: PytorchLegend, way: PytorchWay
) -> tuple[Group, ...]:
    """What a stretch leaves behind: nothing of what is frozen has an adapter."""
    adapters, module = sizes.adapters, stretch.module
    if adapters is not None and module in sizes.frozen:
        sizes = replace(sizes, adapters=replace(adapters, targets=NOTHING))
    return stretch.program(Modules(replace(sizes, still=not sizes.trains(module)), way), encoder)


def rows_of(encoder: Encoder, tokens: int, samples: int) -> tuple[int, int]:
    """Images of a micro-batch, and rows of each: images are as large as each other, or all of a
    micro-batch are as one.
    """
    images, patches = 1, samples * tokens * encoder.patches_per_token
    if encoder.image_patches is not None:
        images = samples * -(-tokens * encoder.patches_per_token // encoder.image_patches)
        patches = encoder.image_patches
    return images, patches + encoder.class_tokens


def sizes_of(encoder: Encoder, tokens: int, sizes: PytorchLegend) -> PytorchLegend:
    """The legend of a tower: its tokens are patches, and no rank has a part of them."""
    images, rows = rows_of(encoder, tokens, sizes.b)
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


def way_of(encoder: Encoder, way: PytorchWay) -> PytorchWay:
    """How a tower's programs run: of the text's model they ask how its norms scale."""
    implementation = Implementation(norm_scale_dtype=way.implementation.norm_scale_dtype)
    return way._replace(traits=Traits(activation=encoder.activation), implementation=implementation)


def _added_elsewhere(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Gradients of weights as what the backward of their operation borrows."""
    return tuple([tuple(map(_without_gradients, group)) for group in groups])


def _without_gradients(operation: BlockOperation) -> BlockOperation:
    rows = [
        row._replace(lifetime=Lifetime.BACKWARD) if row.lifetime is Lifetime.GRADIENT else row
        for row in operation.tensors
    ]
    return operation._replace(tensors=tuple(rows))


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

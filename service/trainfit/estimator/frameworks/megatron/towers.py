"""A tower of images on the first stage, before the text's embedding and as one stretch with it.

It is made of transformers' modules, which every tensor-parallel rank runs whole and whose
gradients are added to the main gradients as backward makes them, or of Megatron's layers, which are
recomputed as the text's are. Every context-parallel rank runs it for all images of its samples.
Sources: resolve.megatron.towers; megatron/core/distributed/distributed_data_parallel.py
(_make_backward_post_hook).
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from fractions import Fraction
from itertools import repeat

from trainfit.estimator.blocks.tower import stretches
from trainfit.estimator.blocks.tower import transformer_engine as tower
from trainfit.estimator.blocks.tower.stretches import one_after_another, rows_of
from trainfit.estimator.blocks.tower.weights import PROJECTOR_MODULE, TOWER_MODULE
from trainfit.estimator.frameworks.megatron.freezing import frozen_towers
from trainfit.estimator.frameworks.megatron.layers import sublayer_groups
from trainfit.estimator.ledger import Group
from trainfit.estimator.legend import Legend, PytorchLegend, legend_of
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.operations.widths import FP32
from trainfit.estimator.run import MegatronRun, MegatronStep, PytorchWay
from trainfit.estimator.segment import Segment, Table, add_up, rerun, walk
from trainfit.resolve.megatron.plan import RecomputePolicy
from trainfit.resolve.pytorch.plan import PytorchStep
from trainfit.specs.encoder import Encoder

PLAIN = RecomputePolicy("none", 0, frozenset(), frozenset(), False)


def with_tower(embedding: Segment, run: MegatronRun) -> tuple[Segment, int]:
    """The embedding behind the tower, where a sample is known to have tokens of images, and the
    bytes of pixels.
    """
    encoder, tokens = run.model.encoder, run.image_tokens
    if encoder is None or not tokens:
        return embedding, 0
    whole = one_after_another([*_segments(encoder, tokens, run), embedding])
    return whole, _pixel_bytes(encoder, tokens, run)


def most_bytes(run: MegatronRun) -> tuple[int, int]:
    """What activations of a tower take at most, where every token of a micro-batch is of an image:
    what each micro-batch keeps, and what is there beside it while one runs.
    """
    encoder = run.model.encoder
    if encoder is None or run.image_tokens is not None:
        return 0, 0
    whole = one_after_another(list(_segments(encoder, run.seq_length, run)))
    pixels = _pixel_bytes(encoder, run.seq_length, run)
    return whole.saved, max(whole.forward.total, whole.backward.total) - whole.saved + pixels


def _pixel_bytes(encoder: Encoder, tokens: int, run: MegatronRun) -> int:
    """What the loader sends of a micro-batch's images, in fp32, while the tower runs forward."""
    images, rows = rows_of(encoder, tokens, run.micro_batch_size)
    return FP32 * images * (rows - encoder.class_tokens) * encoder.patch_values


def _segments(encoder: Encoder, tokens: int, run: MegatronRun) -> Iterator[Segment]:
    if run.tower is not None:
        sizes, way = _modules(run.tower, run)
        yield from stretches.segments(encoder, tokens, sizes, way, leaves=False)
    else:
        yield from _of_megatron(encoder, tokens, run)


def _modules(step: PytorchStep, run: MegatronRun) -> tuple[PytorchLegend, PytorchWay]:
    """What transformers' modules are run with: weights and gradients as wide as activations."""
    text = replace(legend_of(run), linear_input_bytes=Fraction(run.step.activation_bytes))
    sizes = PytorchLegend(
        **{each.name: getattr(text, each.name) for each in fields(Legend)},
        residual_bytes=text.bytes,
        gradient_bytes=text.bytes,
        autocast=False,
        fused=False,
        gathers=False,
        adapters=None,
        frozen=frozen_towers(run),
        tied=False,
        narrow=None,
        float8_weights=False,
    )
    way = PytorchWay(
        step=step,
        implementation=run.model.implementation,
        traits=run.model.traits,
        output_layer=run.model.output_layer,
        num_layers=run.model.num_layers,
        divides_embedding=True,
        shards_parameters=False,
        pipelined=False,
    )
    return sizes, way


def _of_megatron(encoder: Encoder, tokens: int, run: MegatronRun) -> Iterator[Segment]:
    """Patches, layers and mergers, those of earlier layers among them. Where nothing before or
    in a stretch is trained, its forward keeps nothing.
    """
    images, rows = rows_of(encoder, tokens, run.micro_batch_size)
    sizes = replace(
        legend_of(run),
        h=encoder.hidden_size,
        b=1,
        s=images * rows,
        n=images * rows,
        n_shard=images * rows,
        n_gathered=0,
        c=1,
        e=1,
        x=1,
        linear_input_bytes=Fraction(run.step.activation_bytes),
        streams=1,
    )
    merged = images * rows // encoder.patches_per_token
    of_tokens = replace(sizes, s=merged, n=merged, n_shard=merged)
    frozen, way, policy = frozen_towers(run), _way(run), run.step.recompute
    trained = TOWER_MODULE not in frozen
    embedded = tower.patch_embedding(TransformerEngine(sizes, way), encoder)
    yield _walked(embedded, way, sizes.act, trained=trained)
    layer = _walked(_layer(encoder, sizes, way), way, sizes.act, trained=trained)
    full = policy.full if trained else "none"
    if full == "none":
        yield from repeat(layer, encoder.num_layers)
    elif full == "block":
        again = min(policy.num_layers, encoder.num_layers)
        yield from repeat(_again([layer], sizes.act), again)
        yield from repeat(layer, encoder.num_layers - again)
    else:
        for first in range(0, encoder.num_layers, policy.num_layers):
            number = min(policy.num_layers, encoder.num_layers - first)
            yield _again([layer] * number, sizes.act)
    merger = tower.merger(TransformerEngine(of_tokens, way), encoder)
    reached = trained or PROJECTOR_MODULE not in frozen
    yield from repeat(_walked(merger, way, sizes.act, trained=reached), 1 + encoder.deep_mergers)


def _way(run: MegatronRun) -> MegatronStep:
    """How a tower's layers run: in the weights' type, without dropout or context parallelism. Of
    what the text's layers recompute in part they make attention's kernel again, and nothing else.
    """
    policy = run.step.recompute
    modules = frozenset({"core_attn"}) if policy.modules else frozenset[str]()
    step = replace(
        run.step,
        linear_input_bytes=Fraction(run.step.activation_bytes),
        narrow_recipe=None,
        attention=None,
        adapters=None,
        frozen=frozenset(),
        attention_dropout=False,
        hidden_dropout=False,
        recompute=replace(PLAIN, modules=modules),
    )
    return run.way._replace(cp_comm_type="p2p", cp_ring=1, step=step)


def _layer(encoder: Encoder, sizes: Legend, way: MegatronStep) -> Iterator[Group]:
    """Attention, whose heads are turned apart, and a feed-forward network."""
    attention, network = tower.layer_of(encoder).sublayers
    yield from sublayer_groups(TransformerEngine(sizes, way), attention)
    if encoder.rotary:
        yield from tower.rotation(TransformerEngine(sizes, way), encoder)
    yield from sublayer_groups(TransformerEngine(sizes, way), network)


def _walked(groups: Iterator[Group], way: MegatronStep, act: int, *, trained: bool) -> Segment:
    table = add_up(tuple(groups), way.step.recompute.dropped)
    return walk("embedding", table if trained else _unsaved(table), act if trained else 0)


def _unsaved(table: Table) -> Table:
    """What runs without gradients: an operation's results are there while it runs."""
    return [
        [sums._replace(saved=0, forward=sums.forward + sums.saved, backward=0) for sums in group]
        for group in table
    ]


def _again(layers: list[Segment], act: int) -> Segment:
    """Recomputed as layers of the text are (MegatronLedger)."""
    *before, last = layers
    return rerun("embedding", [*before, last.held()], act, act, read=act, output=act)

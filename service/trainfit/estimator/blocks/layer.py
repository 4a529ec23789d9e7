"""A layer: the weights of its sublayers' norms and blocks."""

from collections.abc import Iterator

from trainfit.estimator.blocks import opaque
from trainfit.estimator.blocks.attention import weights as attention
from trainfit.estimator.blocks.mla import weights as mla
from trainfit.estimator.blocks.mlp import weights as mlp
from trainfit.estimator.blocks.moe import weights as moe
from trainfit.estimator.blocks.norm import weights as norm
from trainfit.estimator.blocks.recurrence import weights as recurrence
from trainfit.estimator.ledger import Weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import (
    Attention,
    Block,
    Experts,
    LatentAttention,
    Layer,
    Mlp,
    Opaque,
    Recurrence,
    Sublayer,
)


def block_weights(block: Block, hidden: int) -> Iterator[Weight]:
    """What one block owns; nothing where it runs an earlier layer's weights again."""
    match block:
        case Opaque():
            yield from opaque.weights(block)
        case LatentAttention():
            yield from mla.weights(block, hidden)
        case Experts():
            yield from moe.weights(block, hidden)
        case Attention() if not block.reuses_weights:
            yield from attention.weights(block, hidden)
        case Recurrence() if not block.reuses_weights:
            yield from recurrence.weights(block)
        case Mlp() if not block.reuses_weights:
            yield from mlp.weights(block, hidden)


def layer_weights(layer: Layer, hidden: int) -> Iterator[Weight]:
    """What one layer owns, in forward order."""
    for sublayer in layer.sublayers:
        owned = sublayer_weights(sublayer, hidden)
        yield from owned if sublayer.trainable else map(_frozen, owned)


def sublayer_weights(sublayer: Sublayer, hidden: int) -> Iterator[Weight]:
    """The weights of one sublayer, as if it were trained."""
    for each in sublayer.norms:
        yield norm.weights(each, "norm")
    for block in sublayer.blocks:
        yield from block_weights(block, hidden)
    for each in sublayer.post_norms:
        yield norm.weights(each, "post_norm")


def _frozen(weight: Weight) -> Weight:
    return weight._replace(trainable=False)


def weights_by_kind(spec: ModelSpec) -> tuple[tuple[Weight, ...], ...]:
    """What each kind of layer of a model owns."""
    return tuple([tuple(layer_weights(kind, spec.hidden_size)) for kind in spec.layer_kinds])

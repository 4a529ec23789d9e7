"""A tower of images of Megatron's layers: patches, layers, and mergers that make the text's tokens.

Symbols: estimator.legend, where n counts patches, all images of a micro-batch as one sequence, and
h is the tower's width. Source: Megatron-Bridge's models/qwen_vl/modelling_qwen3_vl
(vision_model.py, transformer_config.py, attention.py, rope.py, utils.py): its layers are the
text's, never in fp8, and no rank has a part of the sequence.
"""

from collections.abc import Iterator

from trainfit.estimator.ledger import Group
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.operations.widths import FP32, INT64
from trainfit.specs.blocks import Attention, Layer, Mlp, Norm, Sublayer
from trainfit.specs.encoder import Encoder

CORNERS = 4
"""Learned positions that one of a patch is interpolated from."""


def layer_of(encoder: Encoder) -> Layer:
    """Attention and a feed-forward network as the text's layers are made of them."""
    h, bias = encoder.hidden_size, encoder.norm == "layernorm"
    norm = Norm(kind=encoder.norm, width=h, bias=bias)
    attention = Attention(
        heads=encoder.heads,
        kv_heads=encoder.heads,
        head_dim=h // encoder.heads,
        qkv_bias=encoder.qkv_bias,
        out_bias=encoder.bias,
    )
    network = Mlp(ffn=encoder.ffn_hidden_size, gated=encoder.gated, bias=encoder.bias)
    return Layer(
        sublayers=(
            Sublayer(norms=(norm,), blocks=(attention,)),
            Sublayer(norms=(norm,), blocks=(network,)),
        )
    )


def patch_embedding(step: TransformerEngine, encoder: Encoder) -> Iterator[Group]:
    """A convolution of pixels in the weights' type, to which interpolated positions are added."""
    n, h, values = step.sizes.n, step.sizes.h, encoder.patch_values
    given = step.tensor("pixels in the tower's type", n, values)
    embedded = step.tensor("embedded patches", n, h)
    step.operation(
        "convolution",
        saves=(given,),
        borrows=(embedded,),
        backward=(step.gradient(embedded), step.tensor("weight gradient", h, values)),
    )
    looked_up = step.tensor("positions of the corners, and weighted", 2, CORNERS, n, h)
    step.operation(
        "positions",
        saves=(
            step.tensor("corners", CORNERS, n, width=INT64),
            step.tensor("weights of the corners", CORNERS, n),
        ),
        borrows=(looked_up,),
        backward=(step.gradient(looked_up),),
    )
    yield step.group()


def rotation(step: TransformerEngine, encoder: Encoder) -> Iterator[Group]:
    """Cosines and sines [n, d] in fp32, which queries and keys are each turned by and keep their
    own of; either is turned in fp32.
    """
    n, d = step.sizes.n, encoder.hidden_size // encoder.heads
    heads = encoder.heads // step.sizes.t
    name = "heads in fp32, and both parts of what they become"
    turned = step.tensor(name, 3, n, heads, d, width=FP32)
    for name in ("queries", "keys"):
        step.operation(
            f"rotate {name}",
            saves=(step.tensor(f"cosines and sines of {name}", 2, n, d, width=FP32),),
            borrows=(turned,),
            backward=(turned,),
        )
    yield step.group()


def merger(step: TransformerEngine, encoder: Encoder) -> Iterator[Group]:
    """A norm of patches, those of a token side by side, and two linears, of n tokens."""
    n, t = step.sizes.n, step.sizes.t
    first, second = (each for each in encoder.projector if each.kind == "linear")
    patches, h = n * encoder.patches_per_token, encoder.hidden_size
    normed = step.tensor("normed patches", patches, h)
    step.norm(encoder.norm, step.tensor("features", patches, h), output=normed)
    x = step.part(normed, "patches side by side", n, encoder.patches_per_token * h)
    projected = step.column_linear("linear_fc1", x, first.width // t, "fc1 output")
    y = step.tensor("activation output", *projected.shape)
    step.activation("activation", projected, y, gated=False, clamped=False)
    step.row_linear("linear_fc2", y, second.width)
    yield step.group()

"""A tower of images as modules of PyTorch: patches, layers, and what makes tokens of the text.

Symbols: estimator.legend, where n counts patches and h is the tower's width; p patches that make
one token, of which an image has none beside where it has class tokens. Sources: transformers'
modeling_qwen2_vl.py, modeling_qwen2_5_vl.py, modeling_qwen3_vl.py, modeling_siglip.py,
modeling_clip.py, modeling_internvl.py, modeling_llama4.py, modeling_pixtral.py and
modeling_voxtral.py, and the projectors of modeling_gemma3.py, modeling_llava.py and
modeling_mistral3.py, whose classes save the same, to the byte (tests/estimator/test_towers.py,
tests/data/torch_steps_here.jsonl).
"""

from trainfit.estimator.blocks.mlp.pytorch import mlp
from trainfit.estimator.blocks.norm.pytorch import norm
from trainfit.estimator.blocks.tower.weights import TOWER_MODULE
from trainfit.estimator.ledger import Group
from trainfit.estimator.legend import NOT_LINEARS
from trainfit.estimator.operations import scaled_dot_product
from trainfit.estimator.operations.pytorch import Modules, Parts
from trainfit.estimator.operations.widths import FP32
from trainfit.estimator.tensors import Role, Tensor
from trainfit.specs.blocks import Mlp, Norm
from trainfit.specs.encoder import Encoder, Projection

CONVOLUTION, MATRIX = NOT_LINEARS
"""Products that are no linears."""


def pixels(step: Modules, encoder: Encoder) -> tuple[Group, ...]:
    """What each patch holds, which is there whatever is trained."""
    width = step.sizes.residual_bytes if encoder.narrow_pixels else FP32
    given = step.tensor("pixels", _patches(step, encoder), encoder.patch_values, width=width)
    step.operation("pixels", saves=(given,))
    step.end_group()
    return step.groups()


def patch_embedding(step: Modules, encoder: Encoder) -> tuple[Group, ...]:
    """A product of what each patch holds, which is kept narrow, with the tower's width; with some
    towers a norm.
    """
    if encoder.convolves:
        return _sound_embedding(step, encoder)
    sizes = step.sizes
    values = step.tensor(
        "pixels in the tower's type", _patches(step, encoder), encoder.patch_values
    )
    if encoder.narrow_pixels and not (encoder.unfolds or sizes.narrows):
        values = step.part(values, "pixels", *values.shape)
    step.linear("linear" if encoder.unfolds else CONVOLUTION, values, sizes.h)
    step.end_group()
    if encoder.first_norm:
        _normed(step, encoder)
        step.end_group()
    return step.groups()


def _sound_embedding(step: Modules, encoder: Encoder) -> tuple[Group, ...]:
    """Two convolutions over three frames each, with an activation behind. Source:
    modeling_voxtral.py (VoxtralEncoder).
    """
    n = step.sizes.n
    frames = step.tensor("frames in the tower's type", 2 * n, encoder.patch_values // 2)
    x = step.activation(_convolved(step, frames, 2 * n))
    step.activation(_convolved(step, x, n))
    step.end_group()
    return step.groups()


KERNEL = 3
"""Frames that a convolution of Whisper's line reads for each that it makes."""


def _convolved(step: Modules, x: Tensor, rows: int) -> Tensor:
    """[rows, h] of what frames [r, inputs] are convolved to."""
    sizes, inputs = step.sizes, x.shape[-1]
    y = step.tensor("convolved frames", rows, sizes.h)
    parts = Parts(backward=[step.passed_back(y, "output gradient")])
    trained = sizes.trains(TOWER_MODULE)
    step.weight(CONVOLUTION, (sizes.h, KERNEL * inputs), parts, trained=trained)
    bias = step.tensor("bias gradient", sizes.h, width=sizes.gradient_bytes)
    step.operation(
        CONVOLUTION,
        saves=parts.saves,
        for_weight=(step.keep(x, x.shape[0]),) * trained,
        backward=(*parts.backward, step.passed_back(x, "input gradient")),
        leaves=(*parts.leaves, *(bias,) * trained),
        weight=(sizes.h, KERNEL * inputs),
    )
    return y


def places(step: Modules, encoder: Encoder) -> tuple[Group, ...]:
    """What all layers read of where patches are: cosines and sines [n, d], and which patches see
    each other, [n, n], which FlashAttention reads none of.
    """
    n, kept = step.sizes.n, []
    if encoder.rotary:
        width = FP32 if encoder.packed_qkv else step.sizes.residual_bytes
        d = encoder.hidden_size // encoder.heads
        kept.append(step.tensor("cosines and sines", 2, n, d, width=width))
    if encoder.masked and step.way.step.attention_backend == "sdpa":
        kept.append(step.tensor("patches that see each other", n, n))
    step.operation("places", saves=kept)
    step.end_group()
    return step.groups()


def layer(step: Modules, encoder: Encoder) -> tuple[Group, ...]:
    """Attention within an image and a feed-forward network, each behind a norm."""
    _attention(step, _normed(step, encoder), encoder)
    _scaled(step, encoder)
    step.end_group()
    normed = _normed(step, encoder)
    if encoder.gated:
        mlp(step, normed, Mlp(ffn=encoder.ffn_hidden_size, gated=True, bias=encoder.bias))
    else:
        _, first, second = encoder.linears
        wide = step.linear(first, normed, encoder.ffn_hidden_size, bias=encoder.bias)
        step.linear_out(second, step.activation(wide), step.sizes.h, bias=encoder.bias)
    _scaled(step, encoder)
    step.end_group()
    return step.groups()


def last_norm(step: Modules, encoder: Encoder) -> tuple[Group, ...]:
    """The norm behind the layers."""
    _normed(step, encoder)
    step.end_group()
    return step.groups()


def adapter(step: Modules, encoder: Encoder) -> tuple[Group, ...]:
    """What the tower makes of its features."""
    return _through(step, encoder, encoder.adapter, _features(step, encoder))


def projector(step: Modules, encoder: Encoder) -> tuple[Group, ...]:
    """From what the tower hands on to tokens as wide as the text's."""
    x = _features(step, encoder)
    if encoder.adapter:
        rows = x.shape[0] // encoder.patches_per_token
        x = step.tensor("features", rows, encoder.adapter[-1].width)
    return _through(step, encoder, encoder.projector, x)


def _features(step: Modules, encoder: Encoder) -> Tensor:
    width = step.sizes.residual_bytes
    return step.tensor("features", _patches(step, encoder), step.sizes.h, width=width)


def _through(
    step: Modules, encoder: Encoder, steps: tuple[Projection, ...], x: Tensor
) -> tuple[Group, ...]:
    for each in steps:
        x = _projected(step, x, each, encoder.patches_per_token)
    step.end_group()
    return step.groups()


def _projected(step: Modules, x: Tensor, by: Projection, p: int) -> Tensor:
    """[rows, w] of x, of which a kind of step makes as many rows or one of p."""
    rows = x.shape[0]
    match by.kind:
        case "norm":
            assert by.norm is not None
            return norm(step, x, by.norm)
        case "pool":
            step.operation("pool", saves=(step.tensor("what is pooled", *x.shape, width=x.width),))
            return step.tensor("averages", rows // p, by.width, width=x.width)
        case "merge":
            return step.tensor("p patches side by side", rows // p, by.width, width=x.width)
        case "activation":
            return step.activation(x, kind=by.activation)
        case "linear":
            return step.linear(by.name or MATRIX, x, by.width, bias=by.bias)


def _patches(step: Modules, encoder: Encoder) -> int:
    """Rows that stand for patches."""
    return step.sizes.n - step.sizes.b * encoder.class_tokens


def _normed(step: Modules, encoder: Encoder) -> Tensor:
    sizes = step.sizes
    x = step.tensor(
        "norm input", sizes.n, sizes.h, width=sizes.residual_bytes, role=Role.BLOCK_INPUT
    )
    bias = encoder.norm == "layernorm"
    return norm(step, x, Norm(kind=encoder.norm, width=encoder.hidden_size, bias=bias))


def _scaled(step: Modules, encoder: Encoder) -> None:
    """What a block made, times a vector, whose gradient it is kept for."""
    if not encoder.layer_scale:
        return
    sizes = step.sizes
    learned = sizes.trains(TOWER_MODULE)
    made = step.tensor("what is scaled", sizes.n, sizes.h)
    gradient = step.tensor("gradient of the scale", sizes.h, width=sizes.gradient_bytes)
    product = step.tensor("gradient, scaled", sizes.n, sizes.h)
    step.operation(
        "scale", saves=(made,) * learned, backward=(product,), leaves=(gradient,) * learned
    )


def _attention(step: Modules, x: Tensor, encoder: Encoder) -> None:
    """Three products [n, h], or one of which values are a part; queries and keys are normed, and
    turned by positions. Outside FlashAttention images of many sizes are attended to one by one, and
    what that leaves is joined.
    """
    sizes, heads = step.sizes, encoder.heads
    head = (sizes.n, heads, encoder.hidden_size // heads)
    if encoder.packed_qkv:
        packed = step.narrowed(step.linear("qkv", x, 3 * sizes.h, bias=True))
        v = step.part(packed, "v", *head)
    else:
        for each in ("q_proj", "k_proj", "v_proj"):
            last = each == "v_proj"
            step.linear(each, x, sizes.h, bias=encoder.qkv_bias, joins=not last)
        v = step.tensor("v", *head)
    if encoder.qk_norm:
        for _ in range(2):
            heads_ = step.tensor("heads", sizes.n, sizes.h)
            norm(step, heads_, Norm(width=encoder.hidden_size), "qk_norm", kind=None)
    q, k = step.tensor("q", *head), step.tensor("k", *head)
    out = scaled_dot_product.fused(
        step,
        q,
        k,
        v,
        rotated=encoder.rotary,
        masked=encoder.padded and step.way.step.attention_backend == "sdpa",
        transposed=encoder.heads_first,
    )
    if encoder.packed_qkv and step.way.step.attention_backend == "sdpa":
        joined = step.tensor("outputs of all images", *out.shape)
        step.operation("join", borrows=(out, joined))
        out = joined
    step.linear_out(encoder.linears[0], out, sizes.h, bias=encoder.bias)

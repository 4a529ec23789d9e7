"""A tower of images as modules of PyTorch: patches, layers, and what makes tokens of the text.

Symbols: estimator.legend, where n counts patches and h is the tower's width; p patches that make
one token. Sources: transformers' modeling_qwen2_vl.py, modeling_qwen2_5_vl.py and
modeling_qwen3_vl.py, whose classes save the same of a layer and of a merger, to the byte
(tests/estimator/test_towers.py).
"""

from trainfit.estimator.blocks.mlp.pytorch import mlp
from trainfit.estimator.blocks.norm.pytorch import norm
from trainfit.estimator.ledger import Group
from trainfit.estimator.operations import scaled_dot_product
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.operations.widths import FP32
from trainfit.estimator.tensors import Role, Tensor
from trainfit.specs.architecture import Encoder
from trainfit.specs.blocks import Mlp, Norm


def patch_embedding(step: Modules, encoder: Encoder) -> tuple[Group, ...]:
    """A product of what each patch holds, which is kept narrow, with the tower's width."""
    sizes = step.sizes
    pixels = step.tensor("pixels", sizes.n, encoder.patch_values, width=FP32)
    values = step.tensor("pixels in the tower's type", sizes.n, encoder.patch_values)
    step.operation("pixels", saves=(pixels,))
    step.linear("patch_embed", values, sizes.h)
    step.end_group()
    return step.groups()


def layer(step: Modules, encoder: Encoder) -> tuple[Group, ...]:
    """Attention within an image and a feed-forward network, each behind a norm."""
    _attention(step, _normed(step, encoder), encoder)
    step.end_group()
    block = Mlp(ffn=encoder.ffn_hidden_size, gated=encoder.gated, bias=True)
    mlp(step, _normed(step, encoder), block)
    step.end_group()
    return step.groups()


def merger(step: Modules, encoder: Encoder) -> tuple[Group, ...]:
    """A norm, and two products over p patches that lie side by side: to their width together, and
    to that of the text.
    """
    sizes, p = step.sizes, encoder.patches_per_token
    normed = _normed(step, encoder)
    together = step.tensor("p patches side by side", sizes.n // p, p * sizes.h)
    step.operation("merge", saves=(together,) if step.keeps(normed) else ())
    wide = step.linear("merger_fc1", together, p * sizes.h, bias=True)
    step.linear("merger_fc2", step.activation(wide, kind="gelu"), encoder.text_width, bias=True)
    step.end_group()
    return step.groups()


def _normed(step: Modules, encoder: Encoder) -> Tensor:
    sizes = step.sizes
    x = step.tensor(
        "norm input", sizes.n, sizes.h, width=sizes.residual_bytes, role=Role.BLOCK_INPUT
    )
    bias = encoder.norm == "layernorm"
    return norm(step, x, Norm(kind=encoder.norm, width=encoder.hidden_size, bias=bias))


def _attention(step: Modules, x: Tensor, encoder: Encoder) -> None:
    """One product [n, 3 h'] of which values are a part; queries and keys are turned by positions.
    Outside FlashAttention images are attended to one by one, and what that leaves is joined.
    """
    sizes, heads = step.sizes, encoder.heads
    head = (sizes.n, heads, encoder.hidden_size // heads)
    packed = step.narrowed(step.linear("qkv", x, 3 * sizes.h, bias=True))
    q, k = step.tensor("q", *head), step.tensor("k", *head)
    v = step.part(packed, "v", *head)
    out = scaled_dot_product.fused(step, q, k, v, rotated=True)
    if step.way.step.attention_backend == "sdpa":
        joined = step.tensor("outputs of all images", *out.shape)
        step.operation("join", borrows=(out, joined))
        out = joined
    step.linear_out("proj", out, sizes.h, bias=True)

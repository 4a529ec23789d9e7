"""A tower that feeds a language model with images or sounds, and how its features get there."""

from typing import Annotated, Literal

from pydantic import Field

from trainfit.specs.blocks import Norm
from trainfit.specs.part import Count, Part, Width


class Projection(Part):
    """One step on the way from a tower's features to the text's width, which makes rows of `width`:
    a norm, an average of the patches of each token, these side by side, a product, an activation.
    """

    kind: Literal["norm", "pool", "merge", "linear", "activation"]
    width: Width
    norm: Norm | None = None
    bias: bool = False
    activation: str = "gelu"
    name: str = ""
    """Of the linear that is the product, as adapters are targeted; empty where it is none."""


class Encoder(Part):
    """A tower of images or sounds, whose patches or frames become tokens of the text."""

    num_layers: Count
    """Those whose features are read."""
    unread_layers: Annotated[int, Field(ge=0, le=2048)] = 0
    """Behind them, of which nothing is kept."""
    hidden_size: Width
    ffn_hidden_size: Width
    heads: Count
    norm: Literal["rmsnorm", "layernorm"]
    gated: bool
    activation: str
    """Of its feed-forward networks, by transformers' name."""
    patch_values: Count
    """Of a patch, in all its frames and colours."""
    patches_per_token: Count
    image_patches: Count | None = None
    """Of an image, where all are as large."""
    class_tokens: Annotated[int, Field(ge=0, le=64)] = 0
    """Rows of an image that stand for none of its patches."""
    narrow_pixels: bool = False
    """Pixels have to come in the weights' type."""
    convolves: bool = False
    """Frames of sound pass two convolutions, of which the second halves them."""
    heads_first: bool = False
    """Heads are copied before tokens in memory, so that attention's output is copied back."""
    padded: bool = False
    """A clip is shorter than what the tower reads, which a mask tells of attention."""
    unfolds: bool = False
    """Patches are copied out of the image before the product."""
    packed_qkv: bool = False
    """Queries, keys and values come from one product, and images are attended to one by one."""
    rotary: bool = False
    masked: bool = False
    """Images are one sequence, which a mask keeps apart outside FlashAttention."""
    qk_norm: bool = False
    """Of all heads together, in a written-out RMSNorm."""
    linears: tuple[str, str, str] = ("out_proj", "fc1", "fc2")
    """Names of the products behind attention and of a feed-forward network that is not gated."""
    bias: bool = True
    qkv_bias: bool = True
    layer_scale: bool = False
    """What attention and the feed-forward network make is multiplied with a learned vector."""
    first_norm: bool = False
    """Before the layers."""
    last_norm: bool = False
    """Behind them."""
    adapter: tuple[Projection, ...] = ()
    """What the tower itself makes of its features."""
    projector: tuple[Projection, ...] = ()
    of_megatron: bool = False
    """Megatron-Bridge makes it of Megatron's layers; others it takes as transformers has them."""
    deep_mergers: Annotated[int, Field(ge=0, le=2048)] = 0
    """Projectors of layers before the last, whose features enter the text's layers."""

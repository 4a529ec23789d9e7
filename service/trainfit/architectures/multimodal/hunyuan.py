"""Hunyuan-VL."""

from trainfit.architectures.composite import composite, flat_text_spec, section
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    attention,
    convolution,
    count,
    layer_norm,
    linear,
    mlp,
    patch_pixels,
    size,
)
from trainfit.specs.architecture import ModelSpec


def hunyuan_vl(config: Config) -> ModelSpec:
    text = flat_text_spec(config, "hunyuan_vl_text")
    vision = section(config, "vision_config").with_defaults(
        {}, attention_heads="num_attention_heads"
    )
    encoders = _tower(vision) + _merger(vision, text.hidden_size)
    return composite(config, text, encoders, tied=True, promoted=True)


def _tower(vision: Config) -> int:
    """Positions, one of them for a class token, span the largest image."""
    width = size(vision, "hidden_size", 1152)
    heads = size(vision, "num_attention_heads", 16)
    side = size(vision, "max_image_size", 2048) // size(vision, "patch_size", 16)
    layer = (
        2 * layer_norm(width)
        + attention(width, query=heads * size(vision, "head_dim", width // heads))
        + mlp(width, size(vision, "intermediate_size", 4304))
    )
    return (
        linear(patch_pixels(vision, 16), width)
        + (side * side + 1) * width
        + count(vision, "num_hidden_layers", 27) * layer
    )


def _merger(vision: Config, text: int) -> int:
    """A strided convolution and a pointwise one; learned vectors mark rows, begin and end."""
    width = size(vision, "hidden_size", 1152)
    side = size(vision, "spatial_merge_size", 2)
    return (
        convolution(width, 2 * width, side, side)
        + convolution(2 * width, 4 * width)
        + linear(4 * width, text)
        + 4 * width
        + 3 * text
        + width
        + text
    )


PARSERS = {"hunyuan_vl": hunyuan_vl}

"""Ovis 2: image patches are words of a visual vocabulary, with an embedding table of their own."""

from trainfit.architectures.composite import composite, section, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    attention,
    count,
    layer_norm,
    linear,
    mlp,
    patch_pixels,
    patches,
    size,
)
from trainfit.specs.architecture import ModelSpec


def ovis2(config: Config) -> ModelSpec:
    """The table's width is the outer `hidden_size`."""
    text = text_spec(config, "qwen2")
    vision = section(config, "vision_config", {"num_visual_indicator_tokens": 5})
    words = size(vision, "vocab_size", 16384)
    table = words * size(config, "hidden_size", 1536)
    spec = composite(config, text, _tower(vision, words) + table, tied=True)
    head = spec.output_layer.model_copy(update=_head(config))
    return spec if head.tied else spec.model_copy(update={"output_layer": head})


def _head(config: Config) -> dict[str, int]:
    """A head of its own has the outer config's dimensions."""
    return {
        "rows": size(config, "vocab_size", 151643),
        "width": size(config, "hidden_size", 1536),
    }


def _tower(vision: Config, words: int) -> int:
    width = size(vision, "hidden_size", 1024)
    bias = vision.bool("qkv_bias", False)
    layer = (
        2 * width
        + attention(width, qkv_bias=bias, out_bias=bias)
        + mlp(
            width,
            size(vision, "intermediate_size", 2816),
            gated=True,
            bias=vision.bool("mlp_bias", False),
        )
    )
    inputs = width * size(vision, "hidden_stride", 1) ** 2
    scored = words - count(vision, "num_visual_indicator_tokens", 5)
    return (
        linear(patch_pixels(vision, 14), width)
        + patches(vision, 224, 14) * width
        + width
        + count(vision, "num_hidden_layers", 24) * layer
        + width
        + linear(inputs, scored, bias=False)
        + layer_norm(scored)
    )


PARSERS = {"ovis2": ovis2}

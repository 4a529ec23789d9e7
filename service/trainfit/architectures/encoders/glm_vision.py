"""The image towers of GLM: rotary or interpolated positions, a strided convolution as merger."""

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    DEPTH_AND_HEADS,
    Tower,
    attention,
    convolution,
    count,
    frame_pixels,
    layer_norm,
    linear,
    mlp,
    patches,
    size,
)


def glm4v_vision(config: Config) -> Tower:
    """Here `intermediate_size` is the merger's; the layers' feed-forward is `out_hidden_size`."""
    sizes = config.with_defaults({}, **DEPTH_AND_HEADS)
    width = size(sizes, "hidden_size", 1536)
    text = size(sizes, "out_hidden_size", 4096)
    layer = (
        2 * width
        + attention(width, qkv_bias=sizes.bool("attention_bias", False), out_bias=False)
        + mlp(width, text, gated=True, bias=False)
    )
    parameters = (
        linear(frame_pixels(sizes, 14), width)
        + patches(sizes, 336, 14) * width
        + count(sizes, "depth", 24) * layer
        + 2 * width
        + _merger(sizes, width, text, size(sizes, "intermediate_size", 13696))
    )
    return Tower(text, parameters)


def glm_ocr_vision(config: Config) -> Tower:
    text = size(config, "out_hidden_size", 1536)
    return _normed_tower(config, text * size(config, "in_channels", 3))


def glm5_next_vision(config: Config) -> Tower:
    return _normed_tower(config, size(config, "projection_intermediate_size", 10240))


def _normed_tower(config: Config, merger_ffn: int) -> Tower:
    """Queries and keys are normed, every linear layer may have a bias, positions are rotary."""
    sizes = config.with_defaults({}, **DEPTH_AND_HEADS)
    width = size(sizes, "hidden_size", 1024)
    text = size(sizes, "out_hidden_size", 1536)
    bias = sizes.bool("attention_bias", True)
    head = width // size(sizes, "num_heads", 16)
    layer = (
        2 * width
        + attention(width, qkv_bias=bias, out_bias=bias)
        + 2 * head
        + mlp(width, size(sizes, "intermediate_size", 4096), gated=True, bias=bias)
    )
    parameters = (
        linear(frame_pixels(sizes, 14), width)
        + count(sizes, "depth", 24) * layer
        + width
        + _merger(sizes, width, text, merger_ffn)
    )
    return Tower(text, parameters)


def _merger(sizes: Config, width: int, text: int, ffn: int) -> int:
    side = size(sizes, "spatial_merge_size", 2)
    return (
        convolution(width, text, side, side)
        + linear(text, text, bias=False)
        + layer_norm(text)
        + mlp(text, ffn, gated=True, bias=False)
    )

"""The Pixtral image tower: rotary positions, gated feed-forward, no biases."""

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    count,
    linear,
    mlp,
    patch_pixels,
    size,
)


def pixtral(config: Config) -> Tower:
    width = size(config, "hidden_size", 1024)
    layer = (
        2 * width
        + attention(width, qkv_bias=False, out_bias=False)
        + mlp(width, size(config, "intermediate_size", 4096), gated=True, bias=False)
    )
    patch = linear(patch_pixels(config, 16), width, bias=False)
    return Tower(width, patch + width + count(config, "num_hidden_layers", 24) * layer)

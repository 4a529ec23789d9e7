"""The EVA tower of BLIP-2: a class token, learned positions, queries and values with biases."""

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    count,
    layer_norm,
    linear,
    mlp,
    patch_pixels,
    patches,
    size,
)


def blip_vision(config: Config) -> Tower:
    """The biases of queries, keys and values are one vector, that of the keys being zero."""
    width = size(config, "hidden_size", 1408)
    layer = (
        2 * layer_norm(width)
        + attention(width, qkv_bias=config.bool("qkv_bias", True))
        + mlp(width, size(config, "intermediate_size", 6144))
    )
    tokens = patches(config, 224, 14) + 1
    pixels = patch_pixels(Config({**config.values, "num_channels": 3}, config.path), 14)
    return Tower(
        width,
        width
        + linear(pixels, width)
        + tokens * width
        + count(config, "num_hidden_layers", 39) * layer
        + layer_norm(width),
    )

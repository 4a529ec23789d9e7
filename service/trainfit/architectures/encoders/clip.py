"""The CLIP image tower: a class token, learned positions and a norm on both ends."""

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    count,
    layer_norm,
    linear,
    patch_pixels,
    patches,
    size,
    transformer_layer,
)


def clip(config: Config) -> Tower:
    width = size(config, "hidden_size", 768)
    tokens = patches(config, 224, 32) + 1
    return Tower(
        width,
        width
        + linear(patch_pixels(config, 32), width, bias=False)
        + tokens * width
        + clip_layers(config, width, ffn=3072, depth=12)
        + 2 * layer_norm(width),
    )


def clip_layers(config: Config, width: int, *, ffn: int, depth: int) -> int:
    """All layers; `ffn` and `depth` are the class's defaults."""
    layer = transformer_layer(width, size(config, "intermediate_size", ffn))
    return count(config, "num_hidden_layers", depth) * layer

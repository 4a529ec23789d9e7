"""The image tower of Llama 3.2 Vision: tiles, aspect ratios, a gated second stack of layers."""

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


def mllama_vision(config: Config) -> Tower:
    """The features, of several layers side by side, are `vision_output_dim` wide."""
    width = size(config, "hidden_size", 1280)
    tiles = size(config, "max_num_tiles", 4)
    ratios = _aspect_ratios(config) + 1
    tokens = patches(config, 448, 14) + 1
    tile_embedding = ratios * tiles * width + 1
    layer = (
        2 * layer_norm(width)
        + attention(width, qkv_bias=False, out_bias=False)
        + mlp(width, size(config, "intermediate_size", 5120))
    )
    gates = 2
    return Tower(
        size(config, "vision_output_dim", 7680),
        linear(patch_pixels(config, 14), width, bias=False)
        + width
        + 1
        + tokens * width
        + ratios * tiles * tokens * width
        + 2 * tile_embedding
        + 2 * layer_norm(width)
        + count(config, "num_hidden_layers", 32) * layer
        + count(config, "num_global_layers", 8) * (layer + gates),
    )


def _aspect_ratios(config: Config) -> int:
    """How many shapes of tiles there are, the eight of four tiles by default."""
    key = "supported_aspect_ratios"
    return 8 if config.get(key) is None else len(config.list(key))

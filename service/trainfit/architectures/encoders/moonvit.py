"""MoonViT, the image tower of Kimi: a learned grid of positions, merged patches."""

from math import prod

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    count,
    layer_norm,
    linear,
    plane,
    size,
    transformer_layer,
)

PUBLISHED_NAMES = {
    "vt_hidden_size": "hidden_size",
    "vt_intermediate_size": "intermediate_size",
    "vt_num_hidden_layers": "num_hidden_layers",
    "init_pos_emb_height": "pos_emb_height",
    "init_pos_emb_width": "pos_emb_width",
}
"""The keys of published configs, and those of the class."""


def kimi_k25_vision(config: Config) -> Tower:
    sizes = config.with_defaults({}, **PUBLISHED_NAMES)
    width = size(sizes, "hidden_size", 1152)
    grid = size(sizes, "pos_emb_height", 64) * size(sizes, "pos_emb_width", 64)
    layer = transformer_layer(width, size(sizes, "intermediate_size", 4304))
    return Tower(
        width,
        linear(3 * prod(plane(sizes, "patch_size", 14)), width)
        + grid * width
        + count(sizes, "num_hidden_layers", 27) * layer
        + layer_norm(width),
    )


def merged_width(config: Config, width: int) -> int:
    """Features of one merged patch; `config` is the tower's section."""
    return int(width * prod(plane(config, "merge_kernel_size", 2)))

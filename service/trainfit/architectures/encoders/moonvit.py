"""MoonViT, the image tower of Kimi: a learned grid of positions, merged patches."""

from math import prod

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    count,
    layer_norm,
    linear,
    mlp,
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


def kimi_k3_vision(config: Config) -> Tower:
    """Norms of weights alone, and heads that together are wider than a patch's features."""
    width, ffn = size(config, "vt_hidden_size", 1024), size(config, "vt_intermediate_size", 4096)
    grid = size(config, "init_pos_emb_height", 64) * size(config, "init_pos_emb_width", 64)
    heads, of_heads = size(config, "qkv_hidden_size", 1536), config.bool("attn_bias", False)
    layer = (
        2 * width
        + attention(width, query=heads, qkv_bias=of_heads, out_bias=of_heads)
        + mlp(width, ffn, bias=config.bool("linear_bias", False))
    )
    pixels, of_pixels = 3 * prod(plane(config, "patch_size", 14)), "patch_embed_proj_bias"
    return Tower(
        width,
        linear(pixels, width, bias=config.bool(of_pixels, False))
        + grid * width
        + count(config, "vt_num_hidden_layers", 27) * layer
        + width,
    )


def merged_width(config: Config, width: int) -> int:
    """Features of one merged patch; `config` is the tower's section."""
    return int(width * prod(plane(config, "merge_kernel_size", 2)))

"""The SAM image tower: windowed attention with relative positions, and a convolutional neck."""

from collections.abc import Mapping

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    convolution,
    count,
    layer_norm,
    linear,
    mlp,
    patch_pixels,
    scaled,
    size,
)

SAM = {
    "hidden_size": 768,
    "output_channels": 256,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 1024,
    "patch_size": 16,
    "window_size": 14,
    "global_attn_indexes": (2, 5, 8, 11),
    "mlp_dim": 3072,
}


def sam(config: Config) -> Tower:
    """The ViT-B of Segment Anything. Without `mlp_dim` the feed-forward is `mlp_ratio` wide."""
    ratio = scaled(config, size(config, "hidden_size", 768), "mlp_ratio", 4.0)
    mlp_dim = config.optional_int("mlp_dim")
    return sam_tower(config, {"mlp_dim": ratio if mlp_dim is None else mlp_dim})


def sam_tower(config: Config, changes: Mapping[str, int] | None = None) -> Tower:
    """A tower of SAM's shape; its features are `output_channels` wide."""
    sizes = Config({**SAM, **config.values, **(changes or {})}, config.path)
    width = size(sizes, "hidden_size")
    side = size(sizes, "image_size") // size(sizes, "patch_size")
    layers = (
        layer_norm(width) * 2
        + attention(width, qkv_bias=sizes.bool("qkv_bias", True))
        + mlp(width, size(sizes, "mlp_dim"))
    ) * count(sizes, "num_hidden_layers")
    positions = side * side * width if sizes.bool("use_abs_pos", True) else 0
    return Tower(
        size(sizes, "output_channels"),
        linear(patch_pixels(sizes, 16), width)
        + positions
        + layers
        + _relative_positions(sizes, width, side)
        + neck(width, size(sizes, "output_channels")),
    )


def neck(width: int, channels: int) -> int:
    """Two convolutions without biases, each with a norm."""
    return (
        convolution(width, channels, 1, 1, bias=False)
        + convolution(channels, channels, 3, 3, bias=False)
        + 2 * layer_norm(channels)
    )


def _relative_positions(sizes: Config, width: int, side: int) -> int:
    """A row and a column table a layer; a window of 0 is the whole image, as in global layers."""
    if not sizes.bool("use_rel_pos", True):
        return 0
    depth = count(sizes, "num_hidden_layers")
    indexes = {index for index in sizes.list("global_attn_indexes") if isinstance(index, int)}
    wide = sum(1 for index in indexes if 0 <= index < depth)
    head = width // size(sizes, "num_attention_heads")
    window = count(sizes, "window_size") or side
    spans = wide * (2 * side - 1) + (depth - wide) * (2 * window - 1)
    return 2 * head * spans

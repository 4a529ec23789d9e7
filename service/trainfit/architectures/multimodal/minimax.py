"""MiniMax-M3 with its image tower."""

from trainfit.architectures.composite import composite, own_text_spec, section
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    count,
    layer_norm,
    linear,
    mlp,
    patch_pixels,
    size,
    transformer_layer,
)
from trainfit.specs.architecture import ModelSpec


def minimax_m3_vl(config: Config) -> ModelSpec:
    """Patches are projected one by one, then merged by a second projection."""
    text = own_text_spec(config, "minimax_m3_vl_text")
    vision = section(config, "vision_config")
    width = size(vision, "hidden_size", 1280)
    hidden = size(config, "projector_hidden_size", 6144)
    merged = text.hidden_size * size(vision, "spatial_merge_size", 2) ** 2
    projector = mlp(width, hidden, text.hidden_size) + mlp(merged, hidden, text.hidden_size)
    return composite(config, text, _tower(vision, width) + projector, promoted=True)


def _tower(vision: Config, width: int) -> int:
    frames = size(vision, "temporal_patch_size", 2)
    layer = transformer_layer(width, size(vision, "intermediate_size", 5120))
    return (
        linear(frames * patch_pixels(vision, 14), width, bias=False)
        + layer_norm(width)
        + count(vision, "num_hidden_layers", 32) * layer
    )


PARSERS = {"minimax_m3_vl": minimax_m3_vl}

"""The CLIP image tower: a class token, learned positions and a norm on both ends."""

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    count,
    layer_norm,
    linear,
    patch_pixels,
    patches,
    plain_encoder,
    size,
    transformer_layer,
)

CLIP = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
}


def clip(config: Config) -> Tower:
    width = size(config, "hidden_size", 768)
    whole = patches(config, 224, 32)
    tokens = whole + 1
    encoder = plain_encoder(
        config,
        CLIP,
        activation=config.str("hidden_act", "quick_gelu"),
        patch_values=patch_pixels(config, 32),
        image_patches=whole,
        class_tokens=1,
        first_norm=True,
    )
    return Tower(
        width,
        width
        + linear(patch_pixels(config, 32), width, bias=False)
        + tokens * width
        + clip_layers(config, width, ffn=3072, depth=12)
        + 2 * layer_norm(width),
        encoder=encoder,
    )


def clip_layers(config: Config, width: int, *, ffn: int, depth: int) -> int:
    """All layers; `ffn` and `depth` are the class's defaults."""
    layer = transformer_layer(width, size(config, "intermediate_size", ffn))
    return count(config, "num_hidden_layers", depth) * layer

"""SigLIP towers and those built on them: patches, learned positions, layers with biases."""

from collections.abc import Mapping

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
    plain_encoder,
    plane,
    size,
    transformer_layer,
)

SIGLIP = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12}
SO400M = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27}
IDEFICS3 = {"hidden_size": 1152, "intermediate_size": 3072, "num_hidden_layers": 12}


def siglip_layers(config: Config, defaults: Mapping[str, int], patch: int, positions: int) -> int:
    """A tower without its pooling head; `patch` is the class's default patch size."""
    sizes = config.with_defaults(defaults)
    width = size(sizes, "hidden_size")
    layer = transformer_layer(width, size(sizes, "intermediate_size"))
    return (
        linear(patch_pixels(sizes, patch), width)
        + positions * width
        + count(sizes, "num_hidden_layers") * layer
        + layer_norm(width)
    )


def pooling_head(config: Config, defaults: Mapping[str, int]) -> int:
    """Attention of one learned query over all patches, and a feed-forward."""
    sizes = config.with_defaults(defaults)
    width = size(sizes, "hidden_size")
    ffn = size(sizes, "intermediate_size")
    return width + attention(width) + layer_norm(width) + mlp(width, ffn)


def siglip(config: Config) -> Tower:
    whole = patches(config, 224, 16)
    encoder = plain_encoder(
        config,
        SIGLIP | {"num_attention_heads": 12},
        activation=config.str("hidden_act", "gelu_pytorch_tanh"),
        patch_values=patch_pixels(config, 16),
        image_patches=whole,
        last_norm=True,
    )
    return _with_optional_head(config, whole)._replace(encoder=encoder)


def siglip2(config: Config) -> Tower:
    return _with_optional_head(config, count(config, "num_patches", 256))


def idefics2_vision(config: Config) -> Tower:
    positions = (plane(config, "image_size", 224)[0] // plane(config, "patch_size", 32)[0]) ** 2
    return Tower(size(config, "hidden_size", 768), siglip_layers(config, SIGLIP, 32, positions))


def idefics3_vision(config: Config) -> Tower:
    positions = patches(config, 224, 32)
    encoder = plain_encoder(
        config,
        IDEFICS3,
        activation=config.str("hidden_act", "gelu_pytorch_tanh"),
        patch_values=patch_pixels(config, 32),
        image_patches=positions,
        last_norm=True,
    )
    parameters = siglip_layers(config, IDEFICS3, 32, positions)
    return Tower(size(config, "hidden_size", 1152), parameters, encoder=encoder)


def _with_optional_head(config: Config, positions: int) -> Tower:
    head = pooling_head(config, SIGLIP) if config.bool("vision_use_head", True) else 0
    return Tower(
        size(config, "hidden_size", 768), siglip_layers(config, SIGLIP, 16, positions) + head
    )

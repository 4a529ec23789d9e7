"""The image towers of InternVL: layer scales, a class token, norms and biases as configured."""

from math import prod

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    count,
    layer_norm,
    linear,
    mlp,
    patches,
    plain_encoder,
    plane,
    size,
)

INTERNVL = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24}


def internvl_vision(config: Config) -> Tower:
    return _tower(config, attention_bias=False)


INTERN_VIT = {
    "hidden_size": 3200,
    "intermediate_size": 12800,
    "num_hidden_layers": 48,
    "num_attention_heads": 25,
    "image_size": 224,
    "qkv_bias": False,
    "qk_normalization": True,
    "norm_type": "rms_norm",
}
_OF_INTERN_VIT = {"qkv_bias": "attention_bias", "qk_normalization": "use_qk_norm"}


def intern_vit(config: Config, last: int, forced: int | None) -> Tower:
    """The tower under its names of before transformers had it, whose features are those of the
    layer `last`, counted from the end: -1 is the last one. Images may be `forced` to another side
    than positions were learned for.
    """
    config = config.with_defaults(INTERN_VIT, **_OF_INTERN_VIT)
    tower = _tower(config, attention_bias=False)
    depth = count(config, "num_hidden_layers")
    if not -depth <= last <= -1:
        raise config.error("num_hidden_layers", f"has no layer {last}")
    if tower.encoder is None:
        return tower
    read = depth + 1 + last
    sized = config if forced is None else config.with_derived(image_size=forced)
    changes = {
        "num_layers": read,
        "unread_layers": depth - read,
        "image_patches": patches(sized, 448, 14),
    }
    return tower._replace(encoder=tower.encoder.model_copy(update=changes))


def qianfan_ocr_vision(config: Config) -> Tower:
    return _tower(config, attention_bias=True)


def _tower(config: Config, *, attention_bias: bool) -> Tower:
    """`attention_bias` is the class's default for the queries, keys and values."""
    width = size(config, "hidden_size", 1024)
    norm = width if config.str("norm_type", "layer_norm") == "rms_norm" else layer_norm(width)
    qk_norms = 2 * width if config.bool("use_qk_norm", False) else 0
    scales = 2 * width
    layer = (
        2 * norm
        + attention(width, qkv_bias=config.bool("attention_bias", attention_bias))
        + qk_norms
        + mlp(width, size(config, "intermediate_size", 4096))
        + scales
    )
    pixels = prod(plane(config, "patch_size", 14)) * size(config, "num_channels", 3)
    final_norm = 0 if config.bool("use_mean_pooling", True) else layer_norm(width)
    encoder = plain_encoder(
        config,
        INTERNVL,
        norm="rmsnorm" if norm == width else "layernorm",
        patch_values=pixels,
        image_patches=patches(config, 448, 14),
        class_tokens=1,
        qk_norm=qk_norms > 0,
        qkv_bias=config.bool("attention_bias", attention_bias),
        linears=("projection_layer", "fc1", "fc2"),
        layer_scale=True,
        last_norm=final_norm > 0,
    )
    return Tower(
        width,
        linear(pixels, width)
        + _tokens(config) * width
        + count(config, "num_hidden_layers", 24) * layer
        + final_norm,
        encoder=encoder,
    )


def _tokens(config: Config) -> int:
    """Learned vectors: the class token, a mask token and a position for each token."""
    mask = 1 if config.bool("use_mask_token", False) else 0
    learned = config.bool("use_absolute_position_embeddings", True)
    return 1 + mask + (patches(config, 448, 14) + 1 if learned else 0)

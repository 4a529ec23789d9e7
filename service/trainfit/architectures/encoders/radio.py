"""C-RADIO, the image tower of Nemotron: summary tokens, layer scales, image and video patches."""

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    count,
    layer_norm,
    linear,
    mlp,
    scaled,
    size,
)


def radio(config: Config) -> Tower:
    width = size(config, "hidden_size", 1280)
    patch = size(config, "patch_size", 16)
    pixels = patch * patch * size(config, "num_channels", 3)
    frames = config.optional_int("video_temporal_patch_size")
    video = 0 if frames is None else linear(frames * pixels, width, bias=False)
    side = size(config, "max_img_size", 2048) // patch
    tokens = count(config, "num_cls_tokens", 3) + count(config, "num_registers", 7)
    return Tower(
        width,
        linear(pixels, width, bias=False)
        + video
        + (side * side + tokens) * width
        + count(config, "num_hidden_layers", 32) * _layer(config, width),
    )


def _layer(config: Config, width: int) -> int:
    ffn = scaled(config, width, "mlp_ratio", 4.0)
    gated = config.bool("use_swiglu_ffn", False)
    if gated:
        ffn = (int(ffn * 2 / 3) + 7) // 8 * 8
    heads = size(config, "num_attention_heads", 16)
    query = heads * size(config, "head_dim", width // heads)
    scales = 2 * width
    return (
        2 * layer_norm(width)
        + attention(width, query=query, qkv_bias=config.bool("qkv_bias", True))
        + mlp(width, ffn, gated=gated)
        + scales
    )

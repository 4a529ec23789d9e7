"""LFM2-VL and LFM3-VL: shuffled patches, a norm and two linear layers."""

from trainfit.architectures.composite import auto_section, composite, section, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    count,
    frame_pixels,
    layer_norm,
    linear,
    mlp,
    size,
)
from trainfit.architectures.encoders.towers import tower
from trainfit.specs.architecture import ModelSpec


def lfm2_vl(config: Config) -> ModelSpec:
    """The tie is also known as `tie_embedding`."""
    config = config.with_defaults({}, tie_embedding="tie_word_embeddings")
    text = text_spec(config, "lfm2")
    features = tower(auto_section(config, "vision_config", "siglip2_vision_model"))
    inputs = features.width * size(config, "downsample_factor", 2) ** 2
    normed = config.bool("projector_use_layernorm", True)
    projector = _projector(config, inputs, 2560, text.hidden_size)
    norm = layer_norm(inputs) if normed else 0
    return composite(config, text, features.parameters + norm + projector, tied=True)


def lfm3_vl(config: Config) -> ModelSpec:
    text = text_spec(config, "lfm3")
    vision = section(config, "vision_config")
    features = lfm3_vl_vision(vision)
    inputs = features.width * size(vision, "spatial_merge_size", 2) ** 2
    projector = _projector(config, inputs, 4096, text.hidden_size)
    norm = layer_norm(features.width)
    return composite(config, text, features.parameters + norm + projector, tied=True)


def lfm3_vl_vision(config: Config) -> Tower:
    """Short convolutions over the image's plane, and attention in some layers."""
    width, heads = size(config, "hidden_size", 1024), size(config, "num_attention_heads", 16)
    depth = count(config, "num_hidden_layers", 14)
    head = width // heads
    own_attention = (
        attention(
            width,
            query=heads * head,
            key_value=size(config, "num_key_value_heads", 8) * head,
            qkv_bias=False,
            out_bias=False,
        )
        + 2 * head
    )
    kernel = size(config, "conv_kernel_size", 3)
    short_convolution = (
        linear(width, 3 * width, bias=False)
        + width * kernel * kernel
        + linear(width, width, bias=False)
    )
    feed_forward = mlp(width, size(config, "intermediate_size", 2560), gated=True, bias=False)
    convolutions = _convolutions(config, depth)
    return Tower(
        width,
        linear(frame_pixels(config, 16), width, bias=False)
        + width
        + convolutions * short_convolution
        + (depth - convolutions) * own_attention
        + depth * (feed_forward + 2 * width),
    )


def _convolutions(config: Config, depth: int) -> int:
    """How many layers are convolutions: those listed, or the first two and then every other one."""
    if config.get("layer_types") is None:
        return min(depth, 2) + max(depth - 2, 0) // 2
    types = config.list("layer_types")
    if len(types) != depth:
        raise config.error("layer_types", f"must name all {depth} layers")
    return sum(1 for each in types if each == "conv")


def _projector(config: Config, inputs: int, hidden: int, text: int) -> int:
    """`hidden` is the class's default."""
    width = size(config, "projector_hidden_size", hidden)
    return mlp(inputs, width, text, bias=config.bool("projector_bias", True))


PARSERS = {"lfm2_vl": lfm2_vl, "lfm3_vl": lfm3_vl}

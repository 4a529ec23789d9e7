"""Dots 3 Note: an image tower with experts, and a Whisper-like encoder."""

from collections.abc import Sequence

from trainfit.architectures.composite import composite, flat_text_spec, section
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    attention,
    convolution,
    count,
    layer_norm,
    linear,
    mlp,
    patch_pixels,
    size,
)
from trainfit.specs.architecture import ModelSpec

WHISPER_NAMES = {
    "d_model": "hidden_size",
    "encoder_attention_heads": "num_attention_heads",
    "encoder_layers": "num_hidden_layers",
    "encoder_ffn_dim": "intermediate_size",
    "num_mel_bins": "feature_size",
}


def dots3_note(config: Config) -> ModelSpec:
    text = flat_text_spec(config, "dots3_note_text")
    vision = section(config, "vision_config").with_defaults(
        {}, embed_dim="hidden_size", num_heads="num_attention_heads", use_bias="attention_bias"
    )
    encoders = _tower(vision) + _ears(section(config, "audio_config"))
    return composite(config, text, encoders)


def _tower(vision: Config) -> int:
    """Normed queries and keys; deeper layers have more and more experts."""
    width, depth = size(vision, "hidden_size", 1536), count(vision, "num_hidden_layers", 42)
    bias = vision.bool("attention_bias", False)
    head = width // size(vision, "num_attention_heads", 24)
    dense = mlp(
        width,
        size(vision, "intermediate_size", 4224),
        gated=True,
        bias=vision.bool("mlp_bias", False),
    )
    expert = width + mlp(width, size(vision, "moe_intermediate_size", 2112), gated=True, bias=False)
    mlps = sum(experts * expert if experts > 0 else dense for experts in _experts(vision, depth))
    layer = 2 * width + attention(width, qkv_bias=bias, out_bias=bias) + 2 * head
    inputs = size(vision, "adapter_in_dim", 1536)
    merged = inputs * size(vision, "adapter_merge_size", 2) ** 2
    return (
        linear(patch_pixels(vision, 14), width)
        + width
        + depth * layer
        + mlps
        + width
        + layer_norm(inputs)
        + mlp(merged, merged, size(vision, "adapter_out_dim", 5120))
    )


def _experts(vision: Config, depth: int) -> Sequence[int]:
    """Experts of each layer, -1 where it is dense."""
    key = "pyramid_num_routed"
    if vision.get(key) is None:
        if vision.get("mlp_layer_types") is not None or vision.get("per_layer_config") is not None:
            raise vision.error(key, "is needed to know how many experts each layer has")
        pyramid: Sequence[int] = [-1] * 25 + list(range(4, 65, 4)) + [64]
    else:
        pyramid = vision.list(key)
    if len(pyramid) != depth or not all(isinstance(each, int) for each in pyramid):
        raise vision.error(key, f"must be a number for each of {depth} layers")
    return pyramid


def _ears(audio: Config) -> int:
    """Published configs hold the dimensions in a dictionary with Whisper's names."""
    whisper = section(audio, "whisper_config").values
    renamed = {new: whisper[old] for old, new in WHISPER_NAMES.items() if old in whisper}
    sizes = Config({**audio.values, **renamed}, audio.path).with_defaults(
        {},
        whisper_adapter_in_dim="adapter_input_size",
        adapter_output_size="adapter_out_dim",
        whisper_adapter_out_dim="adapter_out_dim",
    )
    width = size(sizes, "hidden_size", 1280)
    channels = size(sizes, "downsample_hidden_size", 480)
    bins = -(-size(sizes, "feature_size", 128) // 8)
    bias = sizes.bool("attention_bias", True)
    keys_bias = width if bias else 0
    ffn = size(sizes, "intermediate_size", 5120)
    layer = (
        2 * width
        + attention(width, qkv_bias=bias, out_bias=bias)
        - keys_bias
        + mlp(width, ffn, gated=True)
    )
    inputs = size(sizes, "adapter_input_size", 1280)
    output = size(sizes, "adapter_out_dim", 5120)
    return (
        convolution(1, channels, 3, 3)
        + 2 * convolution(channels, channels, 3, 3)
        + linear(channels * bins, width, bias=False)
        + count(sizes, "num_hidden_layers", 32) * layer
        + width
        + layer_norm(inputs)
        + mlp(inputs, output, output)
    )


PARSERS = {"dots3_note": dots3_note}

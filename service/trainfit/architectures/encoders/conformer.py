"""Conformer audio encoders: attention and a depthwise convolution between two feed-forwards."""

from math import log2

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    convolution,
    count,
    layer_norm,
    linear,
    mlp,
    size,
)


def parakeet(config: Config) -> Tower:
    """Parakeet as Nemotron uses it: no biases but on the convolutions' subsampling."""
    width, heads = size(config, "hidden_size", 1024), size(config, "num_attention_heads", 8)
    inner = heads * size(config, "head_dim", width // heads)
    groups = config.optional_int("num_key_value_heads", 8) or heads
    bias = config.bool("attention_bias", False)
    convolution_bias = config.bool("convolution_bias", True)
    kernel = size(config, "conv_kernel_size", 9)
    layer = (
        5 * layer_norm(width)
        + 2 * mlp(width, size(config, "intermediate_size", 4096), bias=bias)
        + attention(
            width,
            query=inner,
            key_value=groups * (inner // heads),
            qkv_bias=bias,
            out_bias=bias,
        )
        + linear(width, inner, bias=False)
        + 2 * inner
        + convolution(width, 2 * width, bias=convolution_bias)
        + width * kernel
        + (width if convolution_bias else 0)
        + layer_norm(width)
        + convolution(width, width, bias=convolution_bias)
    )
    layers = count(config, "num_hidden_layers", 24) * layer
    return Tower(width, _parakeet_subsampling(config, width) + layers)


def granite_speech_encoder(config: Config) -> Tower:
    """Block attention with relative positions; characters are predicted half way and at the end."""
    width, heads = size(config, "hidden_dim", 1024), size(config, "num_heads", 8)
    given = config.optional_int("dim_head")
    head = width // heads if given is None else given
    inner = heads * head
    wide = width * size(config, "conv_expansion_factor", 2)
    feed_forward = layer_norm(width) + mlp(width, width * size(config, "feedforward_mult", 4))
    layer = (
        2 * feed_forward
        + layer_norm(width)
        + attention(width, query=inner, qkv_bias=False)
        + (2 * size(config, "max_pos_emb", 512) + 1) * head
        + layer_norm(width)
        + convolution(width, 2 * wide)
        + wide * size(config, "conv_kernel_size", 15)
        + layer_norm(wide)
        + convolution(wide, width)
        + layer_norm(width)
    )
    characters = size(config, "output_dim", 42)
    return Tower(
        width,
        linear(size(config, "input_dim", 160), width)
        + count(config, "num_layers", 10) * layer
        + linear(width, characters)
        + linear(characters, width),
    )


def phi4_multimodal_audio(config: Config) -> Tower:
    width = size(config, "hidden_size", 1024)
    heads = size(config, "num_attention_heads", 16)
    positions = size(config, "bias_max_distance", 1000)
    sided = 1 if config.bool("bias_symmetric", False) else 2
    return Tower(
        width,
        _phi4_subsampling(config, width)
        + positions * sided * heads
        + count(config, "num_blocks", 24) * _phi4_layer(config, width, heads),
    )


def _phi4_layer(config: Config, width: int, heads: int) -> int:
    ffn = size(config, "intermediate_size", 1536)
    feed_forward = layer_norm(width) + linear(width, 2 * ffn) + linear(ffn, width)
    outer = size(config, "ext_pw_out_channel", 1024)
    wide = width * size(config, "depthwise_multiplier", 1)
    separable = convolution(1, wide, size(config, "kernel_size", 3)) + convolution(
        wide, size(config, "depthwise_separable_out_channel", 1024)
    )
    gated = convolution(width, 2 * outer) + 2 * outer
    return (
        2 * feed_forward
        + attention(width, query=heads * size(config, "head_dim", width // heads))
        + layer_norm(width)
        + gated
        + separable
        + convolution(width, outer)
        + 2 * layer_norm(width)
    )


def _phi4_subsampling(config: Config, width: int) -> int:
    channels = size(config, "nemo_conv_channels", 1024)
    factor = size(config, "time_reduction", 8)
    separable = convolution(1, channels, 3, 3) + convolution(channels, channels)
    steps = int(log2(factor))
    final = -(-size(config, "input_size", 80) // factor)
    return (
        convolution(1, channels, 3, 3)
        + max(steps - 1, 0) * separable
        + linear(channels * final, width)
    )


def _parakeet_subsampling(config: Config, width: int) -> int:
    channels = size(config, "subsampling_conv_channels", 256)
    kernel = size(config, "subsampling_conv_kernel_size", 3)
    steps = int(log2(size(config, "subsampling_factor", 8)))
    bins = size(config, "num_mel_bins", 80) // size(config, "subsampling_conv_stride", 2) ** steps
    separable = convolution(1, channels, kernel, kernel) + convolution(channels, channels)
    return (
        convolution(1, channels, kernel, kernel)
        + max(steps - 1, 0) * separable
        + linear(channels * bins, width)
    )

"""The image and audio towers of Gemma 3n and Gemma 4; their clipping bounds are buffers."""

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    convolution,
    count,
    linear,
    mlp,
    pair,
    size,
)

MOBILENET_V5_300M = 294_126_912
"""Parameters of the published `mobilenetv5_300m_enc`, which takes no dimensions from a config."""


def gemma4_vision(config: Config) -> Tower:
    width = size(config, "hidden_size", 768)
    head = size(config, "head_dim", 64)
    patch = size(config, "patch_size", 16)
    layer = (
        4 * width
        + 2 * head
        + attention(
            width,
            query=size(config, "num_attention_heads", 12) * head,
            key_value=size(config, "num_key_value_heads", 12) * head,
            qkv_bias=False,
            out_bias=False,
        )
        + mlp(width, size(config, "intermediate_size", 3072), gated=True, bias=False)
    )
    return Tower(
        width,
        linear(3 * patch * patch, width, bias=False)
        + 2 * size(config, "position_embedding_size", 10240) * width
        + count(config, "num_hidden_layers", 16) * layer,
    )


def gemma4_audio(config: Config) -> Tower:
    """A conformer; its features leave it `output_proj_dims` wide."""
    width = size(config, "hidden_size", 1024)
    first, second = pair(config, "subsampling_conv_channels", (128, 32))
    output = size(config, "output_proj_dims", 1536)
    layer = conformer_layer(
        width, size(config, "num_attention_heads", 8), size(config, "conv_kernel_size", 5)
    )
    parameters = (
        _subsampling(first, second, (3, 3), (3, 3))
        + linear(first // 4 * second, width, bias=False)
        + count(config, "num_hidden_layers", 12) * layer
        + linear(width, output)
    )
    return Tower(output, parameters)


def gemma3n_audio(config: Config) -> Tower:
    width = size(config, "hidden_size", 1536)
    first, second = pair(config, "sscp_conv_channel_size", (128, 32))
    kernels = _pairs(config, "sscp_conv_kernel_size", ((3, 3), (3, 3)))
    strides = _pairs(config, "sscp_conv_stride_size", ((2, 2), (2, 2)))
    features = size(config, "input_feat_size", 128)
    for (_, kernel), (_, stride) in zip(kernels, strides, strict=True):
        features = (features + 2 - kernel) // stride + 1
    layer = conformer_layer(
        width, size(config, "conf_num_attention_heads", 8), size(config, "conf_conv_kernel_size", 5)
    )
    parameters = (
        _subsampling(first, second, *kernels)
        + linear(second * features, width, bias=False)
        + count(config, "conf_num_hidden_layers", 12) * layer
    )
    return Tower(width, parameters)


def gemma3n_vision(config: Config) -> Tower:
    architecture = config.str("architecture", "mobilenetv5_300m_enc")
    if architecture != "mobilenetv5_300m_enc":
        raise config.error("architecture", "is not a tower whose parameters are known")
    return Tower(size(config, "hidden_size", 2048), MOBILENET_V5_300M)


def conformer_layer(width: int, heads: int, kernel: int) -> int:
    """Two feed-forwards around attention with relative positions and a depthwise convolution."""
    feed_forward = 2 * width + mlp(width, 4 * width, bias=False)
    self_attention = (
        2 * width
        + attention(width, qkv_bias=False, out_bias=False)
        + linear(width, width, bias=False)
        + width // heads
    )
    depthwise = (
        2 * width
        + linear(width, 2 * width, bias=False)
        + width * kernel
        + linear(width, width, bias=False)
    )
    return 2 * feed_forward + self_attention + depthwise + width


def _subsampling(
    first: int, second: int, kernel: tuple[int, int], next_kernel: tuple[int, int]
) -> int:
    """Two convolutions over the spectrogram, each with a norm of its channels."""
    return (
        convolution(1, first, *kernel, bias=False)
        + first
        + convolution(first, second, *next_kernel, bias=False)
        + second
    )


def _pairs(
    config: Config, key: str, default: tuple[tuple[int, int], tuple[int, int]]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """A height and a width for each of the two convolutions."""
    pairs = config.list(key, default)
    if len(pairs) != 2:
        raise config.error(key, "must be two pairs")
    first, second = (pair(Config({key: each}, config.path), key) for each in pairs)
    return first, second

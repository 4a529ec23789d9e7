"""Audio encoders in the line of Whisper: convolutions over a spectrogram, then layers whose keys
have no bias. A `width` that leaves them is that of their features."""

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    convolution,
    count,
    layer_norm,
    linear,
    mlp,
    plain_encoder,
    size,
    transformer_layer,
)

WHISPER_NAMES = {
    "d_model": "hidden_size",
    "encoder_layers": "num_hidden_layers",
    "encoder_attention_heads": "num_attention_heads",
    "encoder_ffn_dim": "intermediate_size",
}
"""Whisper's own names of the dimensions."""

LARGE_V3 = {
    "hidden_size": 1280,
    "num_hidden_layers": 32,
    "num_attention_heads": 20,
    "intermediate_size": 5120,
    "num_mel_bins": 128,
    "max_source_positions": 1500,
}
MEDIUM = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "num_mel_bins": 80,
    "max_source_positions": 1500,
}


def whisper_large(config: Config) -> Tower:
    return _whisper(config.with_defaults(LARGE_V3, **WHISPER_NAMES))


def whisper_medium(config: Config) -> Tower:
    return _whisper(config.with_defaults(MEDIUM, **WHISPER_NAMES))


def qwen2_5_omni_audio(config: Config) -> Tower:
    """Sinusoidal positions; two learned marks and a projection to `output_dim`."""
    sizes = config.with_defaults(LARGE_V3, **WHISPER_NAMES)
    width, output = size(sizes, "hidden_size"), size(sizes, "output_dim", 3584)
    return Tower(
        output, _stem(sizes, width) + _layers(sizes, width) + 2 * output + linear(width, output)
    )


def qwen3_omni_audio(config: Config) -> Tower:
    sizes = config.with_defaults(LARGE_V3, **WHISPER_NAMES)
    width, output = size(sizes, "hidden_size"), size(sizes, "output_dim", 3584)
    return Tower(output, qwen3_audio(sizes) + mlp(width, width, output))


def qwen3_asr_encoder(config: Config) -> Tower:
    sizes = config.with_defaults({**MEDIUM, "num_mel_bins": 128}, **WHISPER_NAMES)
    return Tower(size(sizes, "hidden_size"), qwen3_audio(sizes))


def qwen3_audio(sizes: Config) -> int:
    """Three strided convolutions over the spectrogram; layers with biases everywhere."""
    width = size(sizes, "hidden_size")
    channels = size(sizes, "downsample_hidden_size", 480)
    bins = size(sizes, "num_mel_bins")
    for _ in range(3):
        bins = (bins + 1) // 2
    layer = transformer_layer(width, size(sizes, "intermediate_size"))
    return (
        convolution(1, channels, 3, 3)
        + 2 * convolution(channels, channels, 3, 3)
        + linear(channels * bins, width, bias=False)
        + count(sizes, "num_hidden_layers") * layer
        + layer_norm(width)
    )


def glmasr_encoder(config: Config) -> Tower:
    """Rotary positions and grouped keys and values."""
    sizes = config.with_defaults(LARGE_V3)
    width, heads = size(sizes, "hidden_size"), size(sizes, "num_attention_heads")
    head = size(sizes, "head_dim", width // heads)
    kv_heads = sizes.optional_int("num_key_value_heads") or heads
    layer = (
        2 * layer_norm(width)
        + attention(width, query=heads * head, key_value=kv_heads * head)
        - kv_heads * head
        + mlp(width, size(sizes, "intermediate_size"))
    )
    layers = count(sizes, "num_hidden_layers") * layer
    return Tower(width, _stem(sizes, width) + layers + layer_norm(width))


def voxtral_realtime_encoder(config: Config) -> Tower:
    """Root-mean-square norms and a gated feed-forward whose only bias is the last one."""
    sizes = config.with_defaults({**LARGE_V3, "num_attention_heads": 32}, **WHISPER_NAMES)
    width, heads = size(sizes, "hidden_size"), size(sizes, "num_attention_heads")
    inner = heads * size(sizes, "head_dim", 64)
    layer = (
        2 * width
        + attention(width, query=inner)
        - inner
        + mlp(width, size(sizes, "intermediate_size"), gated=True, bias=False)
        + width
    )
    return Tower(width, _stem(sizes, width) + count(sizes, "num_hidden_layers") * layer + width)


def _whisper(sizes: Config) -> Tower:
    width = size(sizes, "hidden_size")
    positions = size(sizes, "max_source_positions") * width
    parameters = _stem(sizes, width) + positions + _layers(sizes, width)
    encoder = plain_encoder(
        sizes,
        {},
        activation=sizes.str("activation_function", "gelu"),
        patch_values=2 * size(sizes, "num_mel_bins"),
        image_patches=size(sizes, "max_source_positions"),
        convolves=True,
        heads_first=True,
        last_norm=True,
    )
    return Tower(width, parameters, frozen=positions, encoder=encoder)


def _stem(sizes: Config, width: int) -> int:
    return convolution(size(sizes, "num_mel_bins"), width, 3) + convolution(width, width, 3)


def _layers(sizes: Config, width: int) -> int:
    """All layers and the final norm."""
    layer = transformer_layer(width, size(sizes, "intermediate_size")) - width
    return count(sizes, "num_hidden_layers") * layer + layer_norm(width)

"""Image tokenizers of the VQGAN line: residual convolutions down to a codebook and up again."""

from collections.abc import Callable
from math import log2

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    attention,
    convolution,
    count,
    layer_norm,
    linear,
    size,
    sizes,
)

JANUS = {
    "embed_dim": 8,
    "num_embeddings": 16384,
    "latent_channels": 256,
    "base_channels": 128,
    "channel_multiplier": (1, 1, 2, 2, 4),
}
CHAMELEON = {
    **JANUS,
    "embed_dim": 256,
    "num_embeddings": 8192,
}
EMU3 = {
    "codebook_size": 32768,
    "embed_dim": 4,
    "latent_channels": 4,
    "base_channels": 256,
    "channel_multiplier": (1, 2, 2, 4),
    "hidden_size": 1024,
}

Attention = Callable[[int], int] | None
"""Parameters of the attention beside a residual block of so many channels; None without."""


def janus_vq(config: Config) -> int:
    """Attention at the last level; a decoder for images to be drawn."""
    vq = config.with_defaults(JANUS)
    last = len(_channels(vq)) - 1
    levels: list[Attention] = [None] * last + [_attention_block]
    return (
        _encoder(vq, levels, _attention_block)
        + _decoder(vq, levels)
        + size(vq, "num_embeddings") * size(vq, "embed_dim")
        + _quantization(vq)
    )


def chameleon_vq(config: Config) -> int:
    """Attention at the listed resolutions; no decoder."""
    vq = config.with_defaults(CHAMELEON)
    vanilla = vq.str("attn_type", "vanilla") == "vanilla"
    wanted = vq.list("attn_resolutions") if vq.get("attn_resolutions") is not None else ()
    resolution = size(vq, "resolution", 512)
    levels: list[Attention] = []
    for _ in _channels(vq):
        levels.append(_attention_block if vanilla and resolution in wanted else None)
        resolution //= 2
    return (
        _encoder(vq, levels, _attention_block if vanilla else None)
        + size(vq, "num_embeddings") * size(vq, "embed_dim")
        + _quantization(vq)
    )


def emu3_vq(config: Config) -> int:
    """Attention at the listed levels, of one width at all of them; time is folded as well."""
    vq = config.with_defaults(EMU3)
    width, codes = size(vq, "hidden_size"), size(vq, "embed_dim")
    latent = size(vq, "latent_channels")
    folded = _folded(vq, latent)
    wanted = vq.list("attn_resolutions", (3,))
    chosen = [level in wanted for level in range(len(_channels(vq)))]

    def plain(channels: int) -> int:
        return attention(width) + layer_norm(channels)

    def conditioned(channels: int) -> int:
        return attention(width) + _spatial_norm(codes, channels)

    temporal = int(log2(size(vq, "temporal_downsample_factor", 4)))
    blocks = count(vq, "num_res_blocks", 2)
    return (
        _encoder(vq, [plain if each else None for each in chosen], plain)
        + temporal * convolution(folded, folded, 4, 3, 3)
        + blocks * _temporal_block(folded)
        + blocks * _temporal_block(latent)
        + temporal * convolution(latent, latent, 3, 3, 3)
        + _conditioned_decoder(vq, [conditioned if each else None for each in chosen], conditioned)
        + size(vq, "codebook_size") * codes
        + convolution(latent, codes, 3)
        + convolution(codes, latent, 3)
    )


def _encoder(vq: Config, levels: list[Attention], middle: Attention) -> int:
    channels = _channels(vq)
    base, blocks = size(vq, "base_channels"), count(vq, "num_res_blocks", 2)
    total, inputs = convolution(size(vq, "in_channels", 3), base, 3, 3), base
    for level, outputs in enumerate(channels):
        for _ in range(blocks):
            total += _residual_block(inputs, outputs) + _beside(levels[level], outputs)
            inputs = outputs
        if level < len(channels) - 1:
            total += convolution(inputs, inputs, 3, 3)
    folded = _folded(vq, size(vq, "latent_channels"))
    return (
        total
        + 2 * _residual_block(inputs, inputs)
        + _beside(middle, inputs)
        + layer_norm(inputs)
        + convolution(inputs, folded, 3, 3)
    )


def _decoder(vq: Config, levels: list[Attention]) -> int:
    inputs = _channels(vq)[-1]
    middle = 2 * _residual_block(inputs, inputs) + _attention_block(inputs)
    ascent, outputs = _ascent(vq, levels, _residual_block)
    return (
        convolution(size(vq, "latent_channels"), inputs, 3, 3)
        + middle
        + ascent
        + layer_norm(outputs)
        + convolution(outputs, size(vq, "out_channels", 3), 3, 3)
    )


def _conditioned_decoder(vq: Config, levels: list[Attention], middle: Attention) -> int:
    """Every norm is scaled and shifted by what the codes say at that place."""
    codes, inputs = size(vq, "embed_dim"), _channels(vq)[-1]

    def block(inputs: int, outputs: int) -> int:
        norms = _spatial_norm(codes, inputs) + _spatial_norm(codes, outputs)
        return _convolutions(inputs, outputs) + norms

    ascent, outputs = _ascent(vq, levels, block)
    return (
        convolution(size(vq, "latent_channels"), inputs, 3, 3)
        + 2 * block(inputs, inputs)
        + _beside(middle, inputs)
        + ascent
        + _spatial_norm(codes, outputs)
        + convolution(outputs, size(vq, "out_channels", 3), 3, 3)
    )


def _ascent(
    vq: Config, levels: list[Attention], block: Callable[[int, int], int]
) -> tuple[int, int]:
    """From the last level up to the first, one block a level more than on the way down."""
    channels = _channels(vq)
    total, inputs = 0, channels[-1]
    for level in reversed(range(len(channels))):
        for _ in range(count(vq, "num_res_blocks", 2) + 1):
            total += block(inputs, channels[level]) + _beside(levels[level], channels[level])
            inputs = channels[level]
        if level:
            total += convolution(inputs, inputs, 3, 3)
    return total, inputs


def _residual_block(inputs: int, outputs: int) -> int:
    return layer_norm(inputs) + layer_norm(outputs) + _convolutions(inputs, outputs)


def _convolutions(inputs: int, outputs: int) -> int:
    """Two convolutions, and a pointwise one past them where the channels change."""
    shortcut = 0 if inputs == outputs else convolution(inputs, outputs)
    return convolution(inputs, outputs, 3, 3) + convolution(outputs, outputs, 3, 3) + shortcut


def _temporal_block(channels: int) -> int:
    return 2 * layer_norm(channels) + 2 * convolution(channels, channels, 3, 3, 3)


def _attention_block(channels: int) -> int:
    return layer_norm(channels) + attention(channels)


def _beside(attention_block: Attention, channels: int) -> int:
    return 0 if attention_block is None else attention_block(channels)


def _spatial_norm(codes: int, channels: int) -> int:
    return layer_norm(channels) + 2 * linear(codes, channels)


def _quantization(vq: Config) -> int:
    """Pointwise convolutions into the codebook's width and back."""
    latent, codes = size(vq, "latent_channels"), size(vq, "embed_dim")
    return linear(latent, codes) + linear(codes, latent)


def _folded(vq: Config, latent: int) -> int:
    """Channels of the latent, twice as many where it has a mean and a variance."""
    return 2 * latent if vq.bool("double_latent", False) else latent


def _channels(vq: Config) -> list[int]:
    base = size(vq, "base_channels")
    return [base * multiple for multiple in sizes(vq, "channel_multiplier")]

"""Gemma 1 to 3 and VaultGemma: wide heads, tied embeddings, from Gemma 2 on norms on both sides."""

from collections.abc import Callable
from functools import cache

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_layer,
    rms,
    sandwich_norm_layer,
)
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Layer

_GEMMA_7B = {
    "vocab_size": 256000,
    "hidden_size": 3072,
    "intermediate_size": 24576,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 256,
}
_GEMMA2_2B = {
    "vocab_size": 256000,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
}


def _decoder(config: Config, layer: Callable[[int | None], Layer], full_every: int) -> ModelSpec:
    """Attention within a window, but for every `full_every`th layer."""
    reach = windows(
        config,
        layer_count(config),
        lambda index: (index + 1) % full_every != 0,
        sliding_window(config),
    )
    layers = [layer(window) for window in reach]
    return decoder(config, layers, tied=True, final_norm=rms(config.int("hidden_size")))


def _attention(config: Config, window: int | None = None, *, normed: bool = False) -> Attention:
    bias = config.bool("attention_bias", False)
    return grouped_query_attention(
        config,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm="head" if normed else None,
        window=window,
    )


def gemma(config: Config) -> ModelSpec:
    config = config.with_defaults(_GEMMA_7B)
    norm = rms(config.int("hidden_size"))
    layer = pre_norm_layer(norm, _attention(config), gated_mlp(config))
    return decoder(config, [layer] * layer_count(config), tied=True, final_norm=norm)


def gemma2(config: Config) -> ModelSpec:
    config = config.with_defaults(_GEMMA2_2B)
    norm = rms(config.int("hidden_size"))

    @cache
    def layer(window: int | None) -> Layer:
        return sandwich_norm_layer(norm, _attention(config, window), gated_mlp(config))

    return _decoder(config, layer, full_every=2)


def gemma3_text(config: Config) -> ModelSpec:
    """The text decoder of Gemma 3, which adds norms of query and key heads."""
    config = config.with_defaults({**_GEMMA2_2B, "vocab_size": 262208})
    norm = rms(config.int("hidden_size"))

    @cache
    def layer(window: int | None) -> Layer:
        attention = _attention(config, window, normed=True)
        return sandwich_norm_layer(norm, attention, gated_mlp(config))

    full_every = config.optional_int("sliding_window_pattern") or 6
    return _decoder(config, layer, full_every=full_every)


def vaultgemma(config: Config) -> ModelSpec:
    config = config.with_defaults(_GEMMA2_2B)
    norm = rms(config.int("hidden_size"))

    @cache
    def layer(window: int | None) -> Layer:
        return pre_norm_layer(norm, _attention(config, window), gated_mlp(config))

    return _decoder(config, layer, full_every=2)


PARSERS = {
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3_text": gemma3_text,
    "vaultgemma": vaultgemma,
}

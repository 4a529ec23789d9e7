"""Cohere's Command models: attention and MLP side by side behind one LayerNorm without bias."""

from functools import cache

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    head_wise_norms,
    layer_count,
    layer_norm,
    parallel_layer,
)
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Layer

_COMMAND_R = {
    "vocab_size": 256000,
    "hidden_size": 8192,
    "intermediate_size": 22528,
    "num_hidden_layers": 40,
    "num_attention_heads": 64,
}
_COMMAND_R7B = {**_COMMAND_R, "sliding_window": 4096}


def cohere(config: Config) -> ModelSpec:
    config = config.with_defaults(_COMMAND_R)
    bias = config.bool("attention_bias", False)
    norm = layer_norm(config.int("hidden_size"), bias=False)
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias)
    if config.bool("use_qk_norm", False):
        attention = head_wise_norms(attention)
    layer = parallel_layer((norm,), attention, gated_mlp(config))
    return decoder(config, [layer] * layer_count(config), tied=True, final_norm=norm)


def _alternating(config: Config, reach: tuple[int | None, ...]) -> ModelSpec:
    """Rotary positions in the layers with a window only."""
    bias = config.bool("attention_bias", False)
    norm = layer_norm(config.int("hidden_size"), bias=False)

    @cache
    def layer(window: int | None) -> Layer:
        attention = grouped_query_attention(
            config, qkv_bias=bias, out_bias=bias, window=window, rope=window is not None
        )
        return parallel_layer((norm,), attention, gated_mlp(config))

    return decoder(config, [layer(window) for window in reach], tied=True, final_norm=norm)


def cohere2(config: Config) -> ModelSpec:
    config = config.with_defaults(_COMMAND_R7B)
    full_every = config.optional_int("sliding_window_pattern") or 4
    total, window = layer_count(config), sliding_window(config)
    return _alternating(
        config, windows(config, total, lambda index: (index + 1) % full_every != 0, window)
    )


def cohere_compass_text(config: Config) -> ModelSpec:
    config = config.with_defaults(_COMMAND_R7B)
    total, window = layer_count(config), sliding_window(config)
    return _alternating(config, windows(config, total, lambda _: False, window))


PARSERS = {"cohere": cohere, "cohere2": cohere2, "cohere_compass_text": cohere_compass_text}

"""Qwen's dense decoders and MiMo: biased query, key and value, or normed heads."""

from typing import Literal

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Mlp

_QWEN2 = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "sliding_window": 4096,
}
_QWEN3 = {**_QWEN2, "head_dim": 128}


def qwen(config: Config) -> ModelSpec:
    """Qwen v1, whose `intermediate_size` counts both halves of its gated MLP.

    Heads are `kv_channels` wide; `no_bias` spares all projections but query, key and value.
    """
    config = config.with_defaults(
        {**_QWEN2, "num_key_value_heads": None, "head_dim": 128}, kv_channels="head_dim"
    )
    bias = not config.bool("no_bias", True)
    hidden = config.int("hidden_size")
    layer = pre_norm_layer(
        rms(hidden),
        grouped_query_attention(config, qkv_bias=True, out_bias=bias),
        Mlp(ffn=config.int("intermediate_size") // 2, bias=bias),
    )
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=rms(hidden))


def qwen_decoder(
    config: Config,
    *,
    qkv_bias: bool,
    out_bias: bool = False,
    qk_norm: Literal["head"] | None = None,
) -> ModelSpec:
    """Llama's layer where the last layers may attend to a window; sizes are filled in."""
    total = layer_count(config)
    window = sliding_window(config) if config.bool("use_sliding_window", False) else None
    first = config.int("max_window_layers", 28)
    attentions = [
        grouped_query_attention(
            config, qkv_bias=qkv_bias, out_bias=out_bias, qk_norm=qk_norm, window=each
        )
        for each in windows(config, total, lambda index: index >= first, window)
    ]
    mlps = [gated_mlp(config)] * total
    return pre_norm_decoder(config, rms(config.int("hidden_size")), attentions, mlps)


def qwen2(config: Config) -> ModelSpec:
    return qwen_decoder(config.with_defaults(_QWEN2), qkv_bias=True)


def qwen3(config: Config) -> ModelSpec:
    bias = config.bool("attention_bias", False)
    return qwen_decoder(config.with_defaults(_QWEN3), qkv_bias=bias, out_bias=bias, qk_norm="head")


PARSERS = {"mimo": qwen2, "qwen": qwen, "qwen2": qwen2, "qwen3": qwen3}

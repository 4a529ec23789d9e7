"""Qwen v1: biased queries, keys and values, and a feed-forward half as wide as its key says."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    grouped_query_attention,
    layer_count,
    pre_norm_layer,
    rms,
)
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


PARSERS = {"qwen": qwen}

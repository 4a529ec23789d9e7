"""Phi MoE: LayerNorms with biases, optional biases on attention and head."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    grouped_query_attention,
    layer_count,
    layer_norm,
    pre_norm_decoder,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.windows import sliding_window
from trainfit.specs.architecture import ModelSpec

_PHIMOE = {
    "vocab_size": 32064,
    "hidden_size": 4096,
    "intermediate_size": 6400,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 16,
    "num_experts_per_tok": 2,
    "sliding_window": None,
}


def phimoe(config: Config) -> ModelSpec:
    config = config.with_defaults(_PHIMOE)
    total = layer_count(config)
    bias = config.bool("attention_bias", False)
    attention = grouped_query_attention(
        config, qkv_bias=bias, out_bias=bias, window=sliding_window(config)
    )
    return pre_norm_decoder(
        config,
        layer_norm(config.int("hidden_size")),
        [attention] * total,
        [routed_experts(config, "num_local_experts", "intermediate_size")] * total,
        head_bias=config.bool("lm_head_bias", False),
    )


PARSERS = {"phimoe": phimoe}

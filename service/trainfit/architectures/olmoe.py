"""OLMoE: queries and keys normed over their whole width, experts in every layer."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention

_OLMOE = {
    "vocab_size": 50304,
    "hidden_size": 2048,
    "intermediate_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_experts": 64,
    "num_experts_per_tok": 8,
}


def _attention(config: Config) -> Attention:
    bias = config.bool("attention_bias", False)
    return grouped_query_attention(config, qkv_bias=bias, out_bias=bias, qk_norm="width")


def olmoe(config: Config) -> ModelSpec:
    """The norms are as wide as if heads shared out `hidden_size`, whatever `head_dim` says."""
    config = config.with_defaults(_OLMOE, num_local_experts="num_experts")
    total, hidden = layer_count(config), config.int("hidden_size")
    attention = _attention(config)
    width = hidden // attention.heads
    norms = {"q_norm": rms(hidden), "k_norm": rms(width * attention.kv_heads)}
    return pre_norm_decoder(
        config,
        rms(hidden),
        [attention.model_copy(update=norms)] * total,
        [routed_experts(config, "num_experts", "intermediate_size")] * total,
    )


PARSERS = {"olmoe": olmoe}

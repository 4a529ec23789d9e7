"""Mixtral: grouped-query attention and experts in every layer."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.windows import sliding_window
from trainfit.specs.architecture import ModelSpec

_MIXTRAL = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": None,
}


def mixtral(config: Config) -> ModelSpec:
    config = config.with_defaults(_MIXTRAL, num_experts="num_local_experts")
    total = layer_count(config)
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [grouped_query_attention(config, window=sliding_window(config))] * total,
        [routed_experts(config, "num_local_experts", "intermediate_size")] * total,
    )


PARSERS = {"mixtral": mixtral}

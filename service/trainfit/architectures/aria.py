"""Aria's text decoder: experts and shared experts of one width in every layer."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.specs.architecture import ModelSpec

_ARIA = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "moe_num_experts": 8,
    "moe_topk": 2,
    "moe_num_shared_experts": 2,
}


def aria_text(config: Config) -> ModelSpec:
    config = config.with_defaults(_ARIA)
    total = layer_count(config)
    bias = config.bool("attention_bias", False)
    experts = routed_experts(
        config,
        "moe_num_experts",
        "intermediate_size",
        top_k="moe_topk",
        shared_ffn=config.int("moe_num_shared_experts") * config.int("intermediate_size"),
        shared_bias=config.bool("mlp_bias", False),
    )
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias)
    norm = rms(config.int("hidden_size"))
    return pre_norm_decoder(config, norm, [attention] * total, [experts] * total)


PARSERS = {"aria_text": aria_text}

"""ERNIE 4.5 MoE: an interval of layers with experts, whose correction bias is a parameter."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block

_ERNIE = {
    "vocab_size": 103424,
    "hidden_size": 2560,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 28,
    "num_attention_heads": 20,
    "num_key_value_heads": 4,
    "moe_num_experts": 64,
    "moe_k": 6,
    "moe_num_shared_experts": 2,
}


def _feed_forwards(config: Config, total: int) -> list[Block]:
    """Experts from `moe_layer_start_index` to `moe_layer_end_index`, the last layer if -1."""
    bias = config.bool("use_bias", False)
    experts = routed_experts(
        config,
        "moe_num_experts",
        "moe_intermediate_size",
        top_k="moe_k",
        shared_ffn=config.int("moe_num_shared_experts") * config.int("moe_intermediate_size"),
        shared_bias=bias,
        correction_bias=True,
    )
    mlp = gated_mlp(config, bias=bias)
    interval = config.int("moe_layer_interval", 1)
    start, end = config.int("moe_layer_start_index", 1), config.int("moe_layer_end_index", -1)
    last = total - 1 if end == -1 else end
    return [
        experts if start <= index <= last and (index + 1) % interval == 0 else mlp
        for index in range(total)
    ]


def ernie4_5_moe(config: Config) -> ModelSpec:
    config = config.with_defaults(
        _ERNIE, num_experts="moe_num_experts", num_experts_per_tok="moe_k"
    )
    total = layer_count(config)
    bias = config.bool("use_bias", False)
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [grouped_query_attention(config, qkv_bias=bias, out_bias=bias)] * total,
        _feed_forwards(config, total),
        tied=True,
        head_bias=bias,
    )


PARSERS = {"ernie4_5_moe": ernie4_5_moe}

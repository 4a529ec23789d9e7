"""Hunyuan's first mixture of experts, whose counts may be lists by layer."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.layer_patterns import per_layer
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Experts

_V1 = {
    "vocab_size": 290943,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_experts": 1,
    "moe_topk": 1,
    "num_shared_expert": 1,
}


def _attention(config: Config) -> Attention:
    bias = config.bool("attention_bias", False)
    return grouped_query_attention(config, qkv_bias=bias, out_bias=bias, qk_norm="head")


def hunyuan_v1_moe(config: Config) -> ModelSpec:
    """Experts and shared expert are `intermediate_size` wide; counts may be lists by layer."""
    config = config.with_defaults(
        _V1, num_experts_per_tok="moe_topk", num_local_experts="num_experts"
    )
    total = layer_count(config)
    ffn = config.int("intermediate_size")
    counts = zip(
        per_layer(config, "num_experts", total),
        per_layer(config, "moe_topk", total),
        per_layer(config, "num_shared_expert", total),
        strict=True,
    )
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [_attention(config)] * total,
        [
            Experts(experts=experts, top_k=top_k, ffn=ffn, shared_ffn=shared * ffn or None)
            for experts, top_k, shared in counts
        ],
    )


PARSERS = {"hunyuan_v1_moe": hunyuan_v1_moe}

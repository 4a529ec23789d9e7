"""Hunyuan's mixtures of experts with grouped-query attention: V1 and V3."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import first_dense, mlp_types, per_layer
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block, Experts

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
_V3 = {
    "vocab_size": 120832,
    "hidden_size": 4096,
    "intermediate_size": 13312,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_experts": 192,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
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


def hy_v3(config: Config) -> ModelSpec:
    config = config.with_defaults(_V3, num_local_experts="num_experts")
    total = layer_count(config)
    bias = config.bool("mlp_bias", False)
    experts = routed_experts(
        config,
        "num_experts",
        "moe_intermediate_size",
        shared_ffn=config.int("num_shared_experts") * config.int("moe_intermediate_size"),
        shared_bias=bias,
    )
    mlps: dict[str, Block] = {"dense": gated_mlp(config, bias=bias), "sparse": experts}
    types = mlp_types(config, first_dense(total, 1))
    norm = rms(config.int("hidden_size"))
    return pre_norm_decoder(
        config, norm, [_attention(config)] * total, [mlps[each] for each in types]
    )


PARSERS = {"hunyuan_v1_moe": hunyuan_v1_moe, "hy_v3": hy_v3}

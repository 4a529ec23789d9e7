"""Laguna: gated attention with a number of heads for each layer."""

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
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block

_LAGUNA = {
    "vocab_size": 100352,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_hidden_layers": 40,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "sliding_window": 512,
}


def _attention(config: Config, heads: int, window: int | None) -> Attention:
    """`gating` is a gate a head if true or "per-head", else one a feature."""
    bias = config.bool("attention_bias", False)
    per_head = config.get("gating", True) in (True, "per-head")
    return grouped_query_attention(
        Config({**config.values, "num_attention_heads": heads}, config.path),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm="head",
        gate="head" if per_head else "feature",
        window=window,
    )


def laguna(config: Config) -> ModelSpec:
    config = config.with_defaults(_LAGUNA)
    total = layer_count(config)
    key = "num_attention_heads_per_layer"
    heads = per_layer(config, "num_attention_heads" if config.get(key) is None else key, total)
    reach = windows(config, total, lambda _: False, sliding_window(config))
    mlps: dict[str, Block] = {
        "dense": gated_mlp(config),
        "sparse": routed_experts(
            config,
            "num_experts",
            "moe_intermediate_size",
            shared_ffn=config.int("shared_expert_intermediate_size"),
            correction_bias=True,
        ),
    }
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [_attention(config, count, window) for count, window in zip(heads, reach, strict=True)],
        [mlps[each] for each in mlp_types(config, first_dense(total, 1))],
    )


PARSERS = {"laguna": laguna}

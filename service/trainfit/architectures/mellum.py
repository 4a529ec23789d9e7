"""Mellum and Kolibri: small experts, normed query and key heads, windows in most layers."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
    sandwich_norm_layer,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import mlp_types
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block, Experts

_MELLUM = {
    "vocab_size": 98304,
    "hidden_size": 2304,
    "intermediate_size": 7168,
    "moe_intermediate_size": 896,
    "num_hidden_layers": 28,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "sliding_window": 1024,
}
_KOLIBRI = {
    "vocab_size": 128000,
    "hidden_size": 2560,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_hidden_layers": 50,
    "num_attention_heads": 48,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 384,
    "num_experts_per_tok": 6,
    "sliding_window": 513,
}


def _experts(config: Config, *, shared: bool) -> Experts:
    return routed_experts(
        config,
        "num_experts",
        "moe_intermediate_size",
        shared_ffn=config.int("shared_expert_intermediate_size") if shared else 0,
    )


def mellum(config: Config) -> ModelSpec:
    config = config.with_defaults(_MELLUM, num_local_experts="num_experts")
    bias = config.bool("attention_bias", False)
    total = layer_count(config)
    reach = windows(config, total, lambda _: False, sliding_window(config))
    attentions = [
        grouped_query_attention(config, qkv_bias=bias, out_bias=bias, qk_norm="head", window=window)
        for window in reach
    ]
    blocks: dict[str, Block] = {
        "dense": gated_mlp(config),
        "sparse": _experts(config, shared=False),
    }
    feed_forwards = [blocks[each] for each in mlp_types(config, ["sparse"] * total)]
    return pre_norm_decoder(config, rms(config.int("hidden_size")), attentions, feed_forwards)


def kolibri1(config: Config) -> ModelSpec:
    """Norms on both sides of each block; every fifth layer sees the whole sequence."""
    config = config.with_defaults(_KOLIBRI, num_local_experts="num_experts")
    norm = rms(config.int("hidden_size"))
    sliding = sliding_window(config)
    experts = _experts(config, shared=True)

    def attention(window: int | None) -> Attention:
        return grouped_query_attention(
            config, qk_norm="head", window=window, rope=window == sliding
        )

    reach = windows(config, layer_count(config), lambda i: (i + 1) % 5 != 0, sliding)
    kinds = {w: sandwich_norm_layer(norm, attention(w), experts) for w in set(reach)}
    return decoder(config, [kinds[w] for w in reach], tied=False, final_norm=norm)


PARSERS = {"kolibri1": kolibri1, "mellum": mellum}

"""Qwen's mixtures of experts with softmax attention, and Flint, which follows them."""

from collections.abc import Collection

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import layer_numbers
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block

_QWEN2 = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "sliding_window": 4096,
}
_QWEN3 = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "sliding_window": 4096,
}
_FLINT = {
    "vocab_size": 150144,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 1024,
    "num_hidden_layers": 49,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 256,
    "num_experts_per_tok": 6,
    "sliding_window": 513,
}


def feed_forwards(
    config: Config,
    total: int,
    *,
    shared: bool = False,
    shared_gate: bool = False,
    dense: Collection[int] = (),
) -> list[Block]:
    """Experts in every `decoder_sparse_step`th layer, but for `mlp_only_layers`.

    `dense` are the layers without experts where the config names none.
    """
    mlp: Block = gated_mlp(config)
    if config.int("num_experts") == 0:
        return [mlp] * total
    experts = routed_experts(
        config,
        "num_experts",
        "moe_intermediate_size",
        shared_ffn=config.int("shared_expert_intermediate_size") if shared else 0,
        shared_gate=shared_gate,
    )
    if config.get("mlp_only_layers") is not None:
        dense = layer_numbers(config, "mlp_only_layers")
    step = config.int("decoder_sparse_step", 1)
    sparse = (index not in dense and (index + 1) % step == 0 for index in range(total))
    return [experts if is_sparse else mlp for is_sparse in sparse]


def qwen2_moe(config: Config) -> ModelSpec:
    config = config.with_defaults(_QWEN2)
    total = layer_count(config)
    window = sliding_window(config) if config.bool("use_sliding_window", False) else None
    last = config.int("max_window_layers", 28)
    reach = windows(config, total, lambda index: index % 2 == 0 and index < last, window)
    bias = config.bool("qkv_bias", True)
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [grouped_query_attention(config, qkv_bias=bias, window=window) for window in reach],
        feed_forwards(config, total, shared=True, shared_gate=True),
    )


def qwen3_moe(config: Config) -> ModelSpec:
    config = config.with_defaults(_QWEN3, num_local_experts="num_experts")
    total = layer_count(config)
    bias = config.bool("attention_bias", False)
    attention = grouped_query_attention(
        config,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm="head",
        window=sliding_window(config) if config.bool("use_sliding_window", False) else None,
    )
    norm = rms(config.int("hidden_size"))
    return pre_norm_decoder(config, norm, [attention] * total, feed_forwards(config, total))


def flint(config: Config) -> ModelSpec:
    config = config.with_defaults(_FLINT)
    total = layer_count(config)
    bias = config.bool("attention_bias", False)
    reach = windows(
        config,
        total,
        lambda index: index >= 2 and index % 4 != 1 and index != total - 1,
        sliding_window(config),
    )
    attentions = [
        grouped_query_attention(
            config, qkv_bias=bias, out_bias=bias, qk_norm="head", sinks=True, window=window
        )
        for window in reach
    ]
    mlps = feed_forwards(config, total, shared=True, dense=(0, 1))
    return pre_norm_decoder(config, rms(config.int("hidden_size")), attentions, mlps)


PARSERS = {"flint": flint, "qwen2_moe": qwen2_moe, "qwen3_moe": qwen3_moe}

"""Qwen3-Next and the text models of Qwen3.5: gated DeltaNet with gated attention now and then."""

from collections.abc import Sequence

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.delta_net import gated_delta_net
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import attention_types
from trainfit.architectures.qwen_moe import feed_forwards
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block, Recurrence

QWEN = {
    "vocab_size": 248320,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "attention_bias": False,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}
EXPERTS = {"moe_intermediate_size": 512, "shared_expert_intermediate_size": 512}
_QWEN3_NEXT = {
    **QWEN,
    **EXPERTS,
    "vocab_size": 151936,
    "intermediate_size": 5632,
    "num_hidden_layers": 48,
    "num_experts_per_tok": 10,
    "num_experts": 512,
}
_QWEN3_5 = {
    **QWEN,
    "model_type": "qwen3_5_text",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 32,
    "num_key_value_heads": 4,
}
_QWEN3_5_MOE = {
    **QWEN,
    **EXPERTS,
    "model_type": "qwen3_5_moe_text",
    "num_hidden_layers": 40,
    "num_experts_per_tok": 8,
    "num_experts": 256,
}


def qwen3_next(config: Config) -> ModelSpec:
    """Experts in every `decoder_sparse_step`th layer, beside a gated shared expert."""
    config = config.with_defaults(_QWEN3_NEXT)
    total = layer_count(config)
    return _decoder(config, feed_forwards(config, total, shared=True, shared_gate=True))


def qwen3_5(config: Config) -> ModelSpec:
    config = config.with_defaults(_QWEN3_5)
    return _decoder(config, [gated_mlp(config)] * layer_count(config))


def qwen3_5_moe(config: Config) -> ModelSpec:
    """Experts in every layer, beside a gated shared expert."""
    config = config.with_defaults(_QWEN3_5_MOE)
    experts = routed_experts(
        config,
        "num_experts",
        "moe_intermediate_size",
        shared_ffn=config.int("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    return _decoder(config, [experts] * layer_count(config))


def gated_attention(config: Config) -> Attention:
    """Attention with normed heads, its query projection twice as wide to gate the output."""
    bias = config.bool("attention_bias")
    return grouped_query_attention(
        config, qkv_bias=bias, out_bias=bias, qk_norm="head", gate="feature", gate_bias=bias
    )


def delta_net(config: Config) -> Recurrence:
    """Gated DeltaNet by Qwen's names of keys."""
    return gated_delta_net(
        config.int("hidden_size"),
        key_heads=config.int("linear_num_key_heads"),
        value_heads=config.int("linear_num_value_heads"),
        key_dim=config.int("linear_key_head_dim"),
        value_dim=config.int("linear_value_head_dim"),
        kernel=config.int("linear_conv_kernel_dim"),
    )


def _decoder(config: Config, mlps: Sequence[Block]) -> ModelSpec:
    """Full attention in every `full_attention_interval`th layer unless `layer_types` is given.

    A multi-token-prediction depth has full attention and the last layer's feed-forward.
    """
    interval = config.int("full_attention_interval")
    types = attention_types(
        config,
        [
            "linear_attention" if (index + 1) % interval else "full_attention"
            for index in range(len(mlps))
        ],
        ("linear_attention", "full_attention"),
    )
    norm, attention, linear = (
        rms(config.int("hidden_size")),
        gated_attention(config),
        delta_net(config),
    )
    return pre_norm_decoder(
        config,
        norm,
        [attention if each == "full_attention" else linear for each in types],
        mlps,
        mtp_layer=pre_norm_layer(norm, attention, mlps[-1]),
    )


PARSERS = {
    "qwen3_5_moe_text": qwen3_5_moe,
    "qwen3_5_text": qwen3_5,
    "qwen3_next": qwen3_next,
}

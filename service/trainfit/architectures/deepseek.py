"""The first DeepSeek MoE: plain attention, routed and shared experts."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import deepseek_experts
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block


def deepseek(config: Config) -> ModelSpec:
    """DeepSeek MoE: plain attention; without `n_routed_experts` every layer is dense."""
    bias = config.bool("attention_bias", False)
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias)
    total = layer_count(config)
    dense: Block = gated_mlp(config)
    sparse = dense if config.get("n_routed_experts") is None else deepseek_experts(config)
    first, every = config.int("first_k_dense_replace", 0), config.int("moe_layer_freq", 1)
    mlps = [sparse if index >= first and index % every == 0 else dense for index in range(total)]
    return pre_norm_decoder(config, rms(config.int("hidden_size")), [attention] * total, mlps)


PARSERS = {"deepseek": deepseek}

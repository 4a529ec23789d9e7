"""dots.llm1: normed query and key heads, DeepSeek's experts."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import deepseek_experts
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block

_DOTS1 = {
    "vocab_size": 152064,
    "hidden_size": 4608,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 62,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "sliding_window": 4096,
}


def dots1(config: Config) -> ModelSpec:
    """The numbers of experts have no default: they are needed once a layer has any."""
    config = config.with_defaults(_DOTS1, num_local_experts="n_routed_experts")
    total = layer_count(config)
    bias = config.bool("attention_bias", False)
    last = config.int("max_window_layers", 62)
    reach = windows(config, total, lambda index: index >= last, sliding_window(config))
    attentions = [
        grouped_query_attention(config, qkv_bias=bias, out_bias=bias, qk_norm="head", window=window)
        for window in reach
    ]
    dense = min(config.int("first_k_dense_replace", 0), total)
    mlps: list[Block] = [gated_mlp(config)] * dense
    if dense < total:
        mlps += [deepseek_experts(config)] * (total - dense)
    return pre_norm_decoder(config, rms(config.int("hidden_size")), attentions, mlps)


PARSERS = {"dots1": dots1}

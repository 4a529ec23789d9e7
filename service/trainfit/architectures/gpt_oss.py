"""gpt-oss: attention sinks, alternating windows, biases on experts and router."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec

_GPT_OSS = {
    "vocab_size": 201088,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
}


def gpt_oss(config: Config) -> ModelSpec:
    config = config.with_defaults(_GPT_OSS, num_experts="num_local_experts")
    total = layer_count(config)
    bias = config.bool("attention_bias", True)
    experts = routed_experts(
        config, "num_local_experts", "intermediate_size", bias=True, router_bias=True
    )
    reach = windows(config, total, lambda index: index % 2 == 0, sliding_window(config))
    attentions = [
        grouped_query_attention(config, qkv_bias=bias, out_bias=bias, sinks=True, window=window)
        for window in reach
    ]
    return pre_norm_decoder(config, rms(config.int("hidden_size")), attentions, [experts] * total)


PARSERS = {"gpt_oss": gpt_oss}

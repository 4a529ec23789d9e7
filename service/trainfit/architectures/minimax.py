"""MiniMax: M1 with lightning attention in every second layer, and M2."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    grouped_query_attention,
    head_dim,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import attention_types
from trainfit.architectures.weights import linear
from trainfit.architectures.windows import sliding_window
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Recurrence

_M1 = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": None,
}
_M2 = {
    "vocab_size": 200064,
    "hidden_size": 3072,
    "intermediate_size": 1536,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
}


def _lightning_attention(config: Config) -> Recurrence:
    """Linear attention with decay: query, key and value of all heads, a gated and normed output."""
    heads, hidden = config.int("num_attention_heads"), config.int("hidden_size")
    width = heads * head_dim(config, heads)
    return Recurrence(
        flavour="lightning_attention",
        bucket="attention",
        weights=(
            *linear("qkv_proj", 3 * width, hidden),
            *linear("output_gate", width, hidden),
            *linear("out_proj", hidden, width),
        ),
        norms=(rms(width),),
        projected_width=4 * width,
        inner_width=width,
    )


def minimax(config: Config) -> ModelSpec:
    """Softmax and lightning attention in turn, unless `layer_types` names them."""
    config = config.with_defaults(_M1, num_experts="num_local_experts")
    total = layer_count(config)
    types = attention_types(
        config,
        ["linear_attention" if index % 2 else "full_attention" for index in range(total)],
        ("full_attention", "linear_attention"),
    )
    attentions: dict[str, Block] = {
        "full_attention": grouped_query_attention(config, window=sliding_window(config)),
        "linear_attention": _lightning_attention(config),
    }
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [attentions[each] for each in types],
        [routed_experts(config, "num_local_experts", "intermediate_size")] * total,
    )


def minimax_m2(config: Config) -> ModelSpec:
    config = config.with_defaults(_M2, num_experts="num_local_experts")
    if config.int("mtp_transformer_layers", 1) != 1:
        raise config.error("mtp_transformer_layers", "must be 1: a depth of one layer is modelled")
    total = layer_count(config)
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [grouped_query_attention(config, qk_norm="width")] * total,
        [routed_experts(config, "num_local_experts", "intermediate_size")] * total,
    )


PARSERS = {"minimax": minimax, "minimax_m2": minimax_m2}

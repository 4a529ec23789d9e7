"""EXAONE MoE: normed query and key heads, windows, dense first layers, shared experts."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.exaone4 import full_every
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import first_dense, mlp_types
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block

_EXAONE_MOE = {
    "vocab_size": 102400,
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "moe_intermediate_size": 1024,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "sliding_window": 4096,
}


def _attentions(config: Config, total: int) -> list[Block]:
    """Where some layers have a window, the others have no rotary positions."""
    sliding, every = sliding_window(config), full_every(config)
    reach = windows(
        config, total, lambda index: sliding is not None and (index + 1) % every != 0, sliding
    )
    return [
        grouped_query_attention(config, qk_norm="head", window=window, rope=window == sliding)
        for window in reach
    ]


def exaone_moe(config: Config) -> ModelSpec:
    config = config.with_defaults(_EXAONE_MOE)
    total = layer_count(config)
    width = config.int("moe_intermediate_size")
    mlps: dict[str, Block] = {
        "dense": gated_mlp(config),
        "sparse": routed_experts(
            config,
            "num_experts",
            "moe_intermediate_size",
            shared_ffn=config.int("num_shared_experts") * width,
        ),
    }
    types = mlp_types(config, first_dense(total, config.int("first_k_dense_replace", 1)))
    norm = rms(config.int("hidden_size"))
    return pre_norm_decoder(
        config, norm, _attentions(config, total), [mlps[each] for each in types]
    )


PARSERS = {"exaone_moe": exaone_moe}

"""Arcee's AFMoE (Trinity): gated attention, norms on both sides of each block."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    rms,
    sandwich_norm_layer,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block

_AFMOE = {
    "vocab_size": 200192,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "head_dim": 128,
    "num_experts": 64,
    "num_experts_per_tok": 6,
    "num_shared_experts": 2,
    "num_dense_layers": 1,
    "sliding_window": 1024,
}


def afmoe(config: Config) -> ModelSpec:
    """Layers without a window have no rotary positions."""
    config = config.with_defaults(_AFMOE)
    total, norm = layer_count(config), rms(config.int("hidden_size"))
    bias = config.bool("attention_bias", False)
    every = config.int("global_attn_every_n_layers", 4)
    reach = windows(config, total, lambda index: (index + 1) % every != 0, sliding_window(config))
    mlp: Block = gated_mlp(config)
    experts = routed_experts(
        config,
        "num_experts",
        "moe_intermediate_size",
        shared_ffn=config.int("num_shared_experts") * config.int("moe_intermediate_size"),
        correction_bias=True,
    )

    def attention(window: int | None) -> Block:
        return grouped_query_attention(
            config,
            qkv_bias=bias,
            out_bias=bias,
            qk_norm="head",
            gate="feature",
            window=window,
            rope=window is not None,
        )

    dense = config.int("num_dense_layers")
    layers = [
        sandwich_norm_layer(norm, attention(window), mlp if index < dense else experts)
        for index, window in enumerate(reach)
    ]
    return decoder(config, layers, tied=False, final_norm=norm)


PARSERS = {"afmoe": afmoe}

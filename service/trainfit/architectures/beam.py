"""Beam: gated attention with a bias a head, norms on both sides of each block, no shared expert."""

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
from trainfit.architectures.layer_patterns import first_dense, mlp_types
from trainfit.architectures.weights import opaque, weight
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block

_BEAM = {
    "vocab_size": 151936,
    "hidden_size": 5120,
    "intermediate_size": 20480,
    "moe_intermediate_size": 2560,
    "num_hidden_layers": 52,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "sliding_window": 512,
}


def _attention(config: Config, window: int | None) -> tuple[Block, ...]:
    bias = config.bool("attention_bias", False)
    attention = grouped_query_attention(
        config,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm="head",
        gate="feature",
        window=window,
        rope=window is not None,
    )
    gate_bias = opaque("gate_bias", "attention", weight("gate_bias", attention.heads))
    return attention, gate_bias


def beam(config: Config) -> ModelSpec:
    """Every sixth layer and the last see all tokens; the first three are dense."""
    config = config.with_defaults(_BEAM)
    total, norm = layer_count(config), rms(config.int("hidden_size"))
    reach = windows(
        config,
        total,
        lambda index: (index + 1) % 6 != 0 and index != total - 1,
        sliding_window(config),
    )
    mlps: dict[str, Block] = {
        "dense": gated_mlp(config),
        "sparse": routed_experts(config, "num_experts", "moe_intermediate_size"),
    }
    layers = [
        sandwich_norm_layer(norm, _attention(config, window), mlps[kind])
        for window, kind in zip(reach, mlp_types(config, first_dense(total, 3)), strict=True)
    ]
    return decoder(config, layers, tied=False, final_norm=norm)


PARSERS = {"beam": beam}

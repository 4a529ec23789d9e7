"""Llama 4's text decoder: chunked attention, one routed and one shared expert per token."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import attention_types, layer_numbers, per_layer
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Mlp, Norm

_LLAMA4 = {
    "vocab_size": 202048,
    "hidden_size": 5120,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "num_hidden_layers": 48,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 16,
    "num_experts_per_tok": 1,
    "attention_chunk_size": 8192,
}


def _attentions(config: Config, total: int) -> list[Block]:
    """Rotary positions, and behind them norms of queries and keys without weights, but for every
    `no_rope_layer_interval`th layer, which sees all tokens. Source: modeling_llama4.py
    (Llama4TextAttention, Llama4TextL2Norm).
    """
    interval = config.int("no_rope_layer_interval", 4)
    rope = [(index + 1) % interval != 0 for index in range(total)]
    if config.get("no_rope_layers"):
        rope = [bool(each) for each in per_layer(config, "no_rope_layers", total)]
    chunk = config.optional_int("attention_chunk_size")
    types = attention_types(
        config,
        ["chunked_attention" if each else "full_attention" for each in rope],
        ("chunked_attention", "full_attention"),
    )
    bias = config.bool("attention_bias", False)
    plain = grouped_query_attention(config, qkv_bias=bias, out_bias=bias)
    norm = Norm(width=plain.head_dim, weight=False) if config.bool("use_qk_norm", True) else None
    return [
        plain.model_copy(
            update={
                "rope": has_rope,
                "window": chunk if kind == "chunked_attention" else None,
                "q_norm": norm if has_rope else None,
                "k_norm": norm if has_rope else None,
            }
        )
        for has_rope, kind in zip(rope, types, strict=True)
    ]


def _feed_forwards(config: Config, total: int) -> list[Block]:
    """Experts are `intermediate_size` wide, layers without them `intermediate_size_mlp`."""
    experts = routed_experts(
        config,
        "num_local_experts",
        "intermediate_size",
        shared_ffn=config.int("intermediate_size"),
    )
    mlp = Mlp(ffn=config.int("intermediate_size_mlp"))
    step = config.int("interleave_moe_layer_step", 1)
    sparse = frozenset(index for index in range(total) if (index + 1) % step == 0)
    if config.get("moe_layers") is not None:
        sparse = layer_numbers(config, "moe_layers")
    return [experts if index in sparse else mlp for index in range(total)]


def llama4_text(config: Config) -> ModelSpec:
    config = config.with_defaults(_LLAMA4)
    total = layer_count(config)
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        _attentions(config, total),
        _feed_forwards(config, total),
    )


PARSERS = {"llama4_text": llama4_text}

"""Unlimited-OCR's text decoder: multi-head attention with a window, DeepSeek's experts."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    kv_heads,
    layer_count,
    multi_head_attention,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import deepseek_experts
from trainfit.architectures.layer_patterns import attention_types, first_dense, mlp_types
from trainfit.architectures.windows import sliding_window
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block

_UNLIMITED_OCR = {
    "vocab_size": 129280,
    "hidden_size": 1280,
    "intermediate_size": 6848,
    "moe_intermediate_size": 896,
    "num_hidden_layers": 12,
    "num_attention_heads": 10,
    "num_key_value_heads": 10,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "sliding_window": 128,
}
_SLIDING = "reference_sliding_attention"


def _attention(config: Config, window: int | None) -> Attention:
    bias = config.bool("attention_bias", False)
    groups = kv_heads(config, config.int("num_attention_heads"))
    return multi_head_attention(config, groups=groups, qkv_bias=bias, out_bias=bias, window=window)


def unlimited_ocr_text(config: Config) -> ModelSpec:
    """Heads share out `hidden_size`, whatever `head_dim` says."""
    config = config.with_defaults(_UNLIMITED_OCR, num_experts="n_routed_experts")
    total, window = layer_count(config), sliding_window(config)
    bias = config.bool("mlp_bias", False)
    mlps: dict[str, Block] = {
        "dense": gated_mlp(config, bias=bias),
        "sparse": deepseek_experts(config, shared_bias=bias),
    }
    default = ["full_attention" if window is None else _SLIDING] * total
    attentions = {_SLIDING: _attention(config, window), "full_attention": _attention(config, None)}
    types = mlp_types(config, first_dense(total, config.int("first_k_dense_replace", 1)))
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [attentions[each] for each in attention_types(config, default, attentions)],
        [mlps[each] for each in types],
    )


PARSERS = {"unlimited_ocr_text": unlimited_ocr_text}

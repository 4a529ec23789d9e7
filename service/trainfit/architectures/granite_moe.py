"""Granite MoE: experts in every layer, with a shared expert or attention sinks in some types."""

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
from trainfit.specs.blocks import Attention

_GRANITE_MOE = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": 128,
}


def _attention(config: Config, *, sinks: bool = False, window: int | None = None) -> Attention:
    bias = config.bool("attention_bias", False)
    return grouped_query_attention(config, qkv_bias=bias, out_bias=bias, sinks=sinks, window=window)


def _decoder(config: Config, attentions: list[Attention], shared: int = 0) -> ModelSpec:
    experts = routed_experts(config, "num_local_experts", "intermediate_size", shared_ffn=shared)
    norm = rms(config.int("hidden_size"))
    return pre_norm_decoder(config, norm, attentions, [experts] * len(attentions))


def granitemoe(config: Config) -> ModelSpec:
    config = config.with_defaults(_GRANITE_MOE)
    return _decoder(config, [_attention(config)] * layer_count(config))


def granitemoeshared(config: Config) -> ModelSpec:
    config = config.with_defaults(_GRANITE_MOE)
    attentions = [_attention(config)] * layer_count(config)
    return _decoder(config, attentions, config.int("shared_intermediate_size", 0))


def granitemoe_swa(config: Config) -> ModelSpec:
    config = config.with_defaults(_GRANITE_MOE)
    reach = windows(
        config, layer_count(config), lambda index: index % 4 != 0, sliding_window(config)
    )
    attentions = [_attention(config, sinks=True, window=window) for window in reach]
    return _decoder(config, attentions, config.int("shared_intermediate_size", 0))


PARSERS = {
    "granitemoe": granitemoe,
    "granitemoe_swa": granitemoe_swa,
    "granitemoeshared": granitemoeshared,
}

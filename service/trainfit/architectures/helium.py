"""Helium: Llama's layer, a square output projection without bias."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_layer,
    rms,
)
from trainfit.specs.architecture import ModelSpec

_HELIUM_2B = {
    "vocab_size": 48000,
    "hidden_size": 2560,
    "intermediate_size": 7040,
    "num_hidden_layers": 24,
    "num_attention_heads": 20,
    "num_key_value_heads": 20,
    "head_dim": 128,
}


def helium(config: Config) -> ModelSpec:
    config = config.with_defaults(_HELIUM_2B)
    hidden = config.int("hidden_size")
    attention = grouped_query_attention(config, qkv_bias=config.bool("attention_bias", False))
    if attention.heads * attention.head_dim != hidden:
        raise config.error("head_dim", "times num_attention_heads must be hidden_size")
    mlp = gated_mlp(config, bias=config.bool("mlp_bias", False))
    layers = [pre_norm_layer(rms(hidden), attention, mlp)] * layer_count(config)
    return decoder(config, layers, tied=False, final_norm=rms(hidden))


PARSERS = {"helium": helium}

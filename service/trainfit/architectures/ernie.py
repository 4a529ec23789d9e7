"""ERNIE 4.5 dense: Llama's layer with one key for all biases."""

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

_ERNIE4_5 = {
    "vocab_size": 103424,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 18,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 128,
}


def ernie4_5(config: Config) -> ModelSpec:
    config = config.with_defaults(_ERNIE4_5)
    bias = config.bool("use_bias", False)
    norm = rms(config.int("hidden_size"))
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias)
    layer = pre_norm_layer(norm, attention, gated_mlp(config, bias=bias))
    return decoder(config, [layer] * layer_count(config), tied=True, final_norm=norm)


PARSERS = {"ernie4_5": ernie4_5}

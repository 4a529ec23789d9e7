"""DiffLlama: Llama's layer with differential attention, weighed by four vectors per layer."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    rms,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Layer, NamedWeight, Opaque, Sublayer

_DIFFLLAMA = {
    "vocab_size": 32000,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
}

_VECTORS = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")


def diffllama(config: Config) -> ModelSpec:
    config = config.with_defaults(_DIFFLLAMA)
    bias = config.bool("attention_bias", False)
    norm = rms(config.int("hidden_size"))
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias)
    if attention.kv_heads % 2:
        raise config.error("num_key_value_heads", "must be even: values are split in two")
    weights = tuple(NamedWeight(name=name, shape=(attention.head_dim,)) for name in _VECTORS)
    difference = Opaque(name="difference", bucket="attention", weights=weights)
    layer = Layer(
        sublayers=(
            Sublayer(norms=(norm,), blocks=(attention, difference)),
            Sublayer(norms=(norm,), blocks=(gated_mlp(config),)),
        )
    )
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


PARSERS = {"diffllama": diffllama}

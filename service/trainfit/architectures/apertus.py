"""Apertus: normed query and key heads, a plain MLP whose activation learns two scalars."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    grouped_query_attention,
    layer_count,
    plain_mlp,
    rms,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Layer, NamedWeight, Opaque, Sublayer

_APERTUS_8B = {
    "vocab_size": 131072,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}

_XIELU = Opaque(
    name="xielu",
    bucket="dense_mlp",
    weights=(NamedWeight(name="alpha_p", shape=(1,)), NamedWeight(name="alpha_n", shape=(1,))),
)


def apertus(config: Config) -> ModelSpec:
    config = config.with_defaults(_APERTUS_8B)
    bias = config.bool("attention_bias", False)
    norm = rms(config.int("hidden_size"))
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias, qk_norm="head")
    feed_forward: tuple[Block, ...] = (plain_mlp(config),)
    if config.str("hidden_act", "xielu") == "xielu":
        feed_forward = (*feed_forward, _XIELU)
    layer = Layer(
        sublayers=(
            Sublayer(norms=(norm,), blocks=(attention,)),
            Sublayer(norms=(norm,), blocks=feed_forward),
        )
    )
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


PARSERS = {"apertus": apertus}

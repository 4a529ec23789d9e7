"""BitNet: Llama's layer with a norm inside each block, before its output projection."""

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

_BITNET_2B = {
    "vocab_size": 128256,
    "hidden_size": 2560,
    "intermediate_size": 6912,
    "num_hidden_layers": 30,
    "num_attention_heads": 20,
    "num_key_value_heads": 5,
}


def _inner_norm(name: str, width: int) -> Opaque:
    return Opaque(name=name, bucket="norm", weights=(NamedWeight(name=name, shape=(width,)),))


def bitnet(config: Config) -> ModelSpec:
    """Counted with weights of full precision, as they are trained."""
    config = config.with_defaults(_BITNET_2B)
    bias = config.bool("attention_bias", False)
    hidden = config.int("hidden_size")
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias)
    mlp = gated_mlp(config)
    layer = Layer(
        sublayers=(
            Sublayer(
                norms=(rms(hidden),), blocks=(attention, _inner_norm("attn_sub_norm", hidden))
            ),
            Sublayer(norms=(rms(hidden),), blocks=(mlp, _inner_norm("ffn_sub_norm", mlp.ffn))),
        )
    )
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=rms(hidden))


PARSERS = {"bitnet": bitnet}

"""BLOOM and MPT: ALiBi instead of positions, an MLP of four times the hidden size."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    layer_count,
    layer_norm,
    multi_head_attention,
    pre_norm_layer,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Mlp

_BLOOM = {
    "vocab_size": 250880,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
}
_MPT = {
    "vocab_size": 50368,
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
}


def bloom(config: Config) -> ModelSpec:
    """Biases everywhere, and a norm of the embeddings."""
    config = config.with_defaults(
        _BLOOM, n_embed="hidden_size", n_layer="num_hidden_layers", n_head="num_attention_heads"
    )
    hidden = config.int("hidden_size")
    norm = layer_norm(hidden)
    layer = pre_norm_layer(
        norm,
        multi_head_attention(config, qkv_bias=True, out_bias=True, rope=False),
        Mlp(ffn=4 * hidden, gated=False, bias=True),
    )
    layers = [layer] * layer_count(config)
    return decoder(config, layers, tied=True, final_norm=norm, embedding_norms=(norm,))


def mpt(config: Config) -> ModelSpec:
    """No biases, in the norms neither; `expansion_ratio` is not read by the class."""
    config = config.with_defaults(
        _MPT, d_model="hidden_size", n_layers="num_hidden_layers", n_heads="num_attention_heads"
    )
    hidden = config.int("hidden_size")
    norm = layer_norm(hidden, bias=False)
    mlp = Mlp(ffn=4 * hidden, gated=False)
    layer = pre_norm_layer(norm, multi_head_attention(config, rope=False), mlp)
    return decoder(config, [layer] * layer_count(config), tied=True, final_norm=norm)


PARSERS = {"bloom": bloom, "mpt": mpt}

"""ModernBERT as a decoder: LayerNorms mostly without bias, a transform before the output layer."""

from functools import cache

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    layer_count,
    layer_norm,
    multi_head_attention,
)
from trainfit.architectures.windows import windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Layer, NamedWeight, Norm, Opaque, Sublayer

_MODERNBERT = {
    "vocab_size": 50368,
    "hidden_size": 768,
    "intermediate_size": 1152,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "local_attention": 128,
}


def _prediction_head(norm: Norm, *, bias: bool) -> Opaque:
    """Dense layer and norm between the last layer and the output layer."""
    hidden = norm.width
    shapes = {"dense": (hidden, hidden), "norm": (hidden,)}
    if bias:
        shapes["dense_bias"] = (hidden,)
    if norm.bias:
        shapes["norm_bias"] = (hidden,)
    return Opaque(
        name="prediction_head",
        bucket="output_layer",
        weights=tuple(NamedWeight(name=name, shape=shape) for name, shape in shapes.items()),
    )


def modernbert_decoder(config: Config) -> ModelSpec:
    """The embedding's norm stands in for the first layer's."""
    config = config.with_defaults(_MODERNBERT)
    bias = config.bool("attention_bias", False)
    norm = layer_norm(config.int("hidden_size"), bias=config.bool("norm_bias", False))
    mlp = gated_mlp(config, bias=config.bool("mlp_bias", False))

    @cache
    def layer(first: bool, window: int | None) -> Layer:
        attention = multi_head_attention(config, qkv_bias=bias, out_bias=bias, window=window)
        return Layer(
            sublayers=(
                Sublayer(norms=() if first else (norm,), blocks=(attention,)),
                Sublayer(norms=(norm,), blocks=(mlp,)),
            )
        )

    local = config.optional_int("local_attention")
    window = local // 2 if local is not None and local > 1 else None
    full_every = config.int("global_attn_every_n_layers", 3)
    reach = windows(config, layer_count(config), lambda i: i % full_every != 0, window)
    return decoder(
        config,
        [layer(index == 0, each) for index, each in enumerate(reach)],
        tied=True,
        final_norm=norm,
        head_bias=config.bool("decoder_bias", True),
        embedding_norms=(norm,),
        extras=(_prediction_head(norm, bias=config.bool("classifier_bias", False)),),
    )


PARSERS = {"modernbert-decoder": modernbert_decoder}

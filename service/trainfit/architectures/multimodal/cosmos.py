"""Cosmos 3 Edge: Llama with a plain feed-forward behind SigLIP's layers."""

from trainfit.architectures.composite import composite, own_text_spec, section
from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    grouped_query_attention,
    layer_count,
    plain_mlp,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.encoders.layers import count, layer_norm, mlp, size
from trainfit.architectures.encoders.siglip import SO400M, siglip_layers
from trainfit.specs.architecture import ModelSpec

_COSMOS_EDGE = {
    "vocab_size": 131072,
    "hidden_size": 2048,
    "intermediate_size": 9216,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
}


def cosmos3_edge(config: Config) -> ModelSpec:
    text = own_text_spec(config, "cosmos3_edge_text")
    vision = section(config, "vision_config")
    width = size(vision, "hidden_size", 1152)
    merged = width * size(vision, "spatial_merge_size", 2) ** 2
    hidden = size(config, "projector_hidden_size", 11520)
    encoders = (
        siglip_layers(vision, SO400M, 16, count(vision, "num_patches", 256))
        + layer_norm(width)
        + mlp(merged, hidden, text.hidden_size)
    )
    return composite(config, text, encoders, tied=None)


def cosmos3_edge_text(config: Config) -> ModelSpec:
    """Llama with a plain feed-forward."""
    config = config.with_defaults(_COSMOS_EDGE)
    bias = config.bool("attention_bias", False)
    norm = rms(config.int("hidden_size"))
    layer = pre_norm_layer(
        norm,
        grouped_query_attention(config, qkv_bias=bias, out_bias=bias),
        plain_mlp(config, bias=config.bool("mlp_bias", False)),
    )
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


PARSERS = {
    "cosmos3_edge": cosmos3_edge,
    "cosmos3_edge_text": cosmos3_edge_text,
}

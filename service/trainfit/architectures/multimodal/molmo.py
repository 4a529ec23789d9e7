"""Molmo 2: features of chosen layers pooled by attention."""

from trainfit.architectures.composite import composite, own_text_spec, section
from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    post_norm_layer,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.encoders.layers import (
    attention,
    count,
    layer_norm,
    linear,
    mlp,
    patch_pixels,
    size,
)
from trainfit.specs.architecture import ModelSpec

_MOLMO2 = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
}


def molmo2_text(config: Config) -> ModelSpec:
    """Qwen3's or OLMo 2's layer, and rows for tokens that the head does not score."""
    config = config.with_defaults(_MOLMO2, qkv_bias="attention_bias")
    by_head = config.str("qk_norm_type", "qwen3") == "qwen3"
    attention_block = grouped_query_attention(
        config,
        qkv_bias=config.bool("attention_bias", False),
        qk_norm="head" if by_head else "width",
    )
    norm = rms(config.int("hidden_size"))
    arranged = post_norm_layer if config.bool("norm_after", False) else pre_norm_layer
    layer = arranged(norm, attention_block, gated_mlp(config))
    spec = decoder(config, [layer] * layer_count(config), tied=None, final_norm=norm)
    rows = spec.embedding.rows + count(config, "additional_vocab_size", 128)
    embedding = spec.embedding.model_copy(update={"rows": rows})
    return spec.model_copy(update={"embedding": embedding})


def molmo2(config: Config) -> ModelSpec:
    text = own_text_spec(config, "molmo2_text")
    adapter = section(config, "adapter_config")
    legacy = config.get("vision_config") is None and config.get("vit_config") is not None
    vision = section(config, "vit_config" if legacy else "vision_config")
    depth = count(vision, "num_hidden_layers", 25)
    layers = _feature_layers(adapter)
    if legacy:
        depth = max(layer % depth for layer in layers) + 1 if depth and layers else depth
    encoders = _tower(vision, depth) + _adapter(adapter, len(layers))
    return composite(config, text, encoders, tied=None)


def _feature_layers(adapter: Config) -> list[int]:
    layers = adapter.list("vision_feature_layer", (24, 18))
    if not all(isinstance(layer, int) for layer in layers):
        raise adapter.error("vision_feature_layer", "must hold integers")
    return list(layers)


def _tower(vision: Config, depth: int) -> int:
    """Early configs keep only the layers of a tower up to the last one read."""
    width = size(vision, "hidden_size", 1152)
    layer = (
        2 * layer_norm(width)
        + _attention(vision, width)
        + mlp(width, size(vision, "intermediate_size", 4304))
    )
    return (
        linear(patch_pixels(vision, 14), width)
        + size(vision, "num_position_embeddings", 729) * width
        + depth * layer
    )


def _adapter(adapter: Config, layers: int) -> int:
    width, ffn = size(adapter, "hidden_size", 1152), size(adapter, "intermediate_size", 18944)
    bias = adapter.bool("mlp_bias", False)
    return (
        _attention(adapter, layers * width)
        + 2 * linear(width, ffn, bias=bias)
        + linear(ffn, size(adapter, "text_hidden_size", 3584), bias=False)
    )


def _attention(config: Config, inputs: int) -> int:
    """Attention that reads `inputs` features and leaves as many as the section's width."""
    head = size(config, "head_dim", 72)
    heads = size(config, "num_attention_heads", 16) * head
    groups = size(config, "num_key_value_heads", 16) * head
    bias = config.bool("attention_bias", True)
    whole = attention(inputs, query=heads, key_value=groups, qkv_bias=bias, out_bias=False)
    out = linear(heads, size(config, "hidden_size", 1152), bias=bias)
    return whole - linear(heads, inputs, bias=False) + out


PARSERS = {"molmo2": molmo2, "molmo2_text": molmo2_text}

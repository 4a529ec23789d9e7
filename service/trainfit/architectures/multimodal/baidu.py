"""PaddleOCR-VL and ERNIE 4.5 VL."""

from trainfit.architectures.composite import composite, flat_text_spec, own_text_spec, section
from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.encoders.layers import (
    DEPTH_AND_HEADS,
    count,
    layer_norm,
    linear,
    mlp,
    patch_pixels,
    patches,
    size,
    transformer_layer,
)
from trainfit.architectures.encoders.siglip import SO400M, siglip_layers
from trainfit.architectures.layer_patterns import mlp_types
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Experts, Layer, Sublayer

_ERNIE_VL = {
    "vocab_size": 103424,
    "hidden_size": 2560,
    "intermediate_size": 12288,
    "num_hidden_layers": 28,
    "num_attention_heads": 20,
    "num_key_value_heads": 4,
    "moe_num_experts": 64,
    "moe_k": 6,
    "moe_num_shared_experts": 2,
}


def paddleocr_vl(config: Config) -> ModelSpec:
    vision = section(config, "vision_config")
    width = size(vision, "hidden_size", 1152)
    merged = width * size(vision, "spatial_merge_size", 2) ** 2
    text = flat_text_spec(config, "paddleocr_vl_text")
    encoders = (
        siglip_layers(vision, SO400M, 14, patches(vision, 384, 14))
        + layer_norm(width)
        + mlp(merged, merged, text.hidden_size)
    )
    return composite(config, text, encoders, tied=True, promoted=True)


def ernie4_5_vl_moe(config: Config) -> ModelSpec:
    text = own_text_spec(config, "ernie4_5_vl_moe_text")
    vision = section(config, "vision_config").with_defaults({}, **DEPTH_AND_HEADS)
    encoders = _ernie_tower(vision) + _resampler(vision, text.hidden_size)
    return composite(config, text, encoders, tied=True)


def ernie4_5_vl_moe_text(config: Config) -> ModelSpec:
    """Experts for text and as many, of another width, for images; shared ones serve both."""
    config = config.with_defaults(
        _ERNIE_VL, num_experts="moe_num_experts", num_experts_per_tok="moe_k"
    )
    bias = config.bool("use_bias", False)
    norm = rms(config.int("hidden_size"))
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias)
    dense = pre_norm_layer(norm, attention, gated_mlp(config, bias=bias))
    sparse = Layer(
        sublayers=(
            Sublayer(norms=(norm,), blocks=(attention,)),
            Sublayer(norms=(norm,), blocks=_experts_by_modality(config, shared_bias=bias)),
        )
    )
    total = layer_count(config)
    types = mlp_types(config, ["dense"] + ["sparse"] * (total - 1))
    layers = [dense if each == "dense" else sparse for each in types]
    return decoder(config, layers, tied=True, final_norm=norm)


def _experts_by_modality(config: Config, *, shared_bias: bool) -> tuple[Experts, Experts]:
    widths = config.get("moe_intermediate_size")
    widths = (1536, 512) if widths is None else config.list("moe_intermediate_size")
    if len(widths) < 2:
        raise config.error("moe_intermediate_size", "must be a width for text and one for images")
    text = Experts(
        experts=config.int("moe_num_experts"),
        top_k=config.int("moe_k"),
        ffn=widths[0],
        correction_bias=True,
        shared_ffn=config.int("moe_num_shared_experts") * widths[0] or None,
        shared_bias=shared_bias,
    )
    return text, text.model_copy(update={"ffn": widths[1], "shared_ffn": None})


def _ernie_tower(vision: Config) -> int:
    width = size(vision, "hidden_size", 1280)
    channels = vision.with_defaults({"num_channels": size(vision, "in_channels", 3)})
    layer = transformer_layer(width, size(vision, "intermediate_size", 5120))
    return (
        linear(patch_pixels(channels, 14), width, bias=False)
        + count(vision, "depth", 32) * layer
        + layer_norm(width)
    )


def _resampler(vision: Config, text: int) -> int:
    """Merges patches of an image, then frames of a video."""
    spatial = size(vision, "hidden_size", 1280) * size(vision, "spatial_merge_size", 2) ** 2
    temporal = spatial * size(vision, "temporal_merge_size", 2)
    return (
        mlp(spatial, spatial)
        + mlp(temporal, spatial, spatial)
        + 2 * layer_norm(spatial)
        + linear(spatial, text)
        + text
    )


PARSERS = {
    "ernie4_5_vl_moe": ernie4_5_vl_moe,
    "ernie4_5_vl_moe_text": ernie4_5_vl_moe_text,
    "paddleocr_vl": paddleocr_vl,
}

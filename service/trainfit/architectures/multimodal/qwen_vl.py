"""Qwen-VL and the composites that take its tower."""

from trainfit.architectures.composite import (
    auto_section,
    composite,
    flat_text_spec,
    own_text_spec,
    section,
    text_spec,
)
from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.encoders.layers import Tower, linear
from trainfit.architectures.encoders.qwen_vl import (
    exaone4_5_vision,
    qwen2_5_vl_vision,
    qwen2_vl_vision,
    qwen3_5_vision,
    qwen3_vl_vision,
)
from trainfit.architectures.encoders.towers import merging_tower
from trainfit.architectures.qwen_moe import feed_forwards
from trainfit.specs.architecture import ModelSpec

_QWEN3_VL_MOE = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "tie_word_embeddings": True,
}


def qwen3_vl_moe_text(config: Config) -> ModelSpec:
    return qwen3_experts_decoder(
        config.with_defaults(_QWEN3_VL_MOE, num_local_experts="num_experts")
    )


def qwen3_experts_decoder(config: Config) -> ModelSpec:
    """The decoder of Qwen3 MoE; `config` has its class's sizes filled in."""
    total = layer_count(config)
    bias = config.bool("attention_bias", False)
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias, qk_norm="head")
    norm = rms(config.int("hidden_size"))
    return pre_norm_decoder(config, norm, [attention] * total, feed_forwards(config, total))


def qwen2_vl(config: Config) -> ModelSpec:
    vision = qwen2_vl_vision(section(config, "vision_config"))
    text = flat_text_spec(config, "qwen2_vl_text")
    return _with_tower(config, text, vision, promoted=True)


def qwen2_5_vl(config: Config) -> ModelSpec:
    vision = qwen2_5_vl_vision(section(config, "vision_config"))
    text = flat_text_spec(config, "qwen2_5_vl_text")
    return _with_tower(config, text, vision, promoted=True)


def qwen3_vl(config: Config) -> ModelSpec:
    """Qwen3-VL dense or with experts, whose text type is the outer one with `_text`."""
    vision = qwen3_vl_vision(section(config, "vision_config"))
    text = own_text_spec(config, config.str("model_type") + "_text")
    return _with_tower(config, text, vision)


def qwen3_5(config: Config) -> ModelSpec:
    """Qwen3.5 and its successors, whose text type is the outer one with `_text`."""
    vision = qwen3_5_vision(section(config, "vision_config"))
    text = own_text_spec(config, config.str("model_type") + "_text")
    return _with_tower(config, text, vision)


def _with_tower(
    config: Config, text: ModelSpec, vision: Tower, *, promoted: bool = False
) -> ModelSpec:
    return composite(
        config,
        text,
        vision.parameters,
        promoted=promoted,
        projector=vision.merger,
        encoder=vision.encoder,
    )


def cosmos3_omni(config: Config) -> ModelSpec:
    vision = qwen3_vl_vision(section(config, "vision_config"))
    return composite(config, text_spec(config, "qwen3_vl_text"), vision.parameters)


def exaone4_5(config: Config) -> ModelSpec:
    """The text model's first released type was `exaone4_5_text`."""
    vision = exaone4_5_vision(section(config, "vision_config"))
    named = auto_section(config, "text_config", "exaone4").str("model_type")
    if named == "exaone4_5_text":
        return composite(config, own_text_spec(config, "exaone4"), vision.parameters)
    return composite(config, text_spec(config, "exaone4"), vision.parameters)


def hyperclovax_vision_v2(config: Config) -> ModelSpec:
    """Published configs name the tower by the whole model's type."""
    vision = auto_section(config, "vision_config", "qwen2_5_vl_vision")
    whole = vision.str("model_type") == "qwen2_5_vl"
    features = qwen2_5_vl_vision(vision) if whole else merging_tower(vision)
    text = text_spec(config, "hyperclovax")
    encoders = features.parameters + linear(features.width, text.hidden_size)
    return composite(config, text, encoders, tied=True)


PARSERS = {
    "cohere_compass": qwen3_vl,
    "cosmos3_omni": cosmos3_omni,
    "exaone4_5": exaone4_5,
    "hyperclovax_vision_v2": hyperclovax_vision_v2,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen2_vl": qwen2_vl,
    "qwen3_5": qwen3_5,
    "qwen3_5_moe": qwen3_5,
    "qwen3_vl": qwen3_vl,
    "qwen3_vl_moe": qwen3_vl,
    "qwen3_vl_moe_text": qwen3_vl_moe_text,
    "qwen4_exp": qwen3_5,
}

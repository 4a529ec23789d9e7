"""GLM with eyes or ears: GLM-4.1V, 4.5V and 4.6V, GLM-OCR, GLM-ASR."""

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
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    rms,
    sandwich_norm_layer,
)
from trainfit.architectures.encoders.glm_vision import (
    glm4v_vision,
    glm5_next_vision,
    glm_ocr_vision,
)
from trainfit.architectures.encoders.layers import mlp, size
from trainfit.architectures.encoders.towers import merging_tower, tower
from trainfit.architectures.glm import glm4
from trainfit.architectures.glm_moe import glm4_moe
from trainfit.specs.architecture import ModelSpec

_GLM_OCR = {
    "vocab_size": 59392,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
}
_GLM_ASR_TEXT = {
    "vocab_size": 59264,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
}


def glm4v_text(config: Config) -> ModelSpec:
    """The decoder of GLM-4; its biases are fixed and its heads share out the hidden size."""
    return glm4(Config({**config.values, "head_dim": None, "attention_bias": True}, config.path))


def glm4v_moe_text(config: Config) -> ModelSpec:
    """The decoder of GLM-4.5, by default with biases and never with normed queries and keys."""
    sizes = {"vocab_size": 151424, "attention_bias": True, **config.values, "use_qk_norm": False}
    return glm4_moe(Config(sizes, config.path))


def glm_ocr_text(config: Config) -> ModelSpec:
    """The decoder of GLM-4 without biases."""
    config = config.with_defaults(_GLM_OCR)
    norm = rms(config.int("hidden_size"))
    layer = sandwich_norm_layer(norm, grouped_query_attention(config), gated_mlp(config))
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


def glm4v(config: Config) -> ModelSpec:
    """GLM-4V dense or with experts, whose text type is the outer one with `_text`."""
    vision = glm4v_vision(section(config, "vision_config"))
    text = own_text_spec(config, config.str("model_type") + "_text")
    return composite(config, text, vision.parameters, promoted=True)


def glm46v(config: Config) -> ModelSpec:
    vision = merging_tower(auto_section(config, "vision_config", "glm4v_vision"))
    return composite(config, text_spec(config, "glm4v_text"), vision.parameters)


def glm_ocr(config: Config) -> ModelSpec:
    vision = glm_ocr_vision(section(config, "vision_config"))
    text = own_text_spec(config, "glm_ocr_text")
    return composite(config, text, vision.parameters, promoted=True)


def glm5_next(config: Config) -> ModelSpec:
    vision = glm5_next_vision(section(config, "vision_config"))
    text = flat_text_spec(config, "glm5_next_text")
    return composite(config, text, vision.parameters)


def glmasr(config: Config) -> ModelSpec:
    """What a text section leaves out is that of GLM-ASR-Nano."""
    text = text_spec(config, "llama", _GLM_ASR_TEXT, fill=True)
    audio = auto_section(config, "audio_config", "glmasr_encoder")
    ffn = size(audio, "intermediate_size", 5120)
    encoders = tower(audio).parameters + mlp(ffn, 2 * text.hidden_size, text.hidden_size)
    return composite(config, text, encoders, tied=True)


PARSERS = {
    "glm5_next": glm5_next,
    "glm46v": glm46v,
    "glm4v": glm4v,
    "glm4v_moe": glm4v,
    "glm4v_moe_text": glm4v_moe_text,
    "glm4v_text": glm4v_text,
    "glm_ocr": glm_ocr,
    "glm_ocr_text": glm_ocr_text,
    "glmasr": glmasr,
    "glmga": glm46v,
}

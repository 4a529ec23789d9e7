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
from trainfit.architectures.encoders.glm_vision import (
    glm4v_vision,
    glm5_next_vision,
    glm_ocr_vision,
)
from trainfit.architectures.encoders.layers import mlp, size
from trainfit.architectures.encoders.towers import merging_tower, tower
from trainfit.specs.architecture import ModelSpec

_GLM_ASR_TEXT = {
    "vocab_size": 59264,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
}


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
    "glm_ocr": glm_ocr,
    "glmasr": glmasr,
    "glmga": glm46v,
}

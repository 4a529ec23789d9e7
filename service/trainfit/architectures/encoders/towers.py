"""Towers by model_type, for composite classes that take any."""

from collections.abc import Callable, Mapping

from trainfit.architectures.config import Config, UnsupportedModelTypeError
from trainfit.architectures.encoders.clip import clip
from trainfit.architectures.encoders.gemma import gemma4_vision
from trainfit.architectures.encoders.glm_vision import glm4v_vision
from trainfit.architectures.encoders.internvl import internvl_vision
from trainfit.architectures.encoders.layers import Tower
from trainfit.architectures.encoders.pixtral import pixtral
from trainfit.architectures.encoders.qwen_vl import qwen2_5_vl_vision, qwen3_vl_vision
from trainfit.architectures.encoders.radio import radio
from trainfit.architectures.encoders.siglip import idefics3_vision, siglip, siglip2
from trainfit.architectures.encoders.whisper import (
    glmasr_encoder,
    qwen3_asr_encoder,
    voxtral_realtime_encoder,
    whisper_large,
)

Towers = Mapping[str, Callable[[Config], Tower]]

TOWERS: Towers = {
    "clip_vision_model": clip,
    "gemma4_vision": gemma4_vision,
    "glmasr_encoder": glmasr_encoder,
    "idefics3_vision": idefics3_vision,
    "internvl_vision": internvl_vision,
    "pixtral": pixtral,
    "qwen2_audio_encoder": whisper_large,
    "qwen3_asr_encoder": qwen3_asr_encoder,
    "radio": radio,
    "siglip2_vision_model": siglip2,
    "siglip_vision_model": siglip,
    "smolvlm_vision": idefics3_vision,
    "voxtral_encoder": whisper_large,
    "voxtral_realtime_encoder": voxtral_realtime_encoder,
}
"""Towers whose features a projector takes to the text's width."""

MERGING_TOWERS: Towers = {
    "glm4v_moe_vision": glm4v_vision,
    "glm4v_vision": glm4v_vision,
    "qwen2_5_vl_vision": qwen2_5_vl_vision,
    "qwen3_vl_vision": qwen3_vl_vision,
}
"""Towers that end in the text's width themselves."""


def tower(config: Config) -> Tower:
    """The tower that a section describes by its `model_type`."""
    return _known(TOWERS, config)


def merging_tower(config: Config) -> Tower:
    return _known(MERGING_TOWERS, config)


def _known(towers: Towers, config: Config) -> Tower:
    model_type = config.str("model_type")
    count = towers.get(model_type)
    if count is None:
        raise UnsupportedModelTypeError(model_type, config.path)
    return count(config)

"""Nemotron Omni: RADIO and Parakeet before a hybrid decoder."""

from trainfit.architectures.composite import (
    auto_section,
    optional_section,
    text_spec,
    whole_text_composite,
)
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.conformer import parakeet
from trainfit.architectures.encoders.layers import layer_norm, mlp, size
from trainfit.architectures.encoders.towers import tower
from trainfit.architectures.multimodal.internvl import shuffled_width
from trainfit.specs.architecture import ModelSpec

PUBLISHED_NAMES = {
    "llm_config": "text_config",
    "sound_config": "audio_config",
    "vit_hidden_size": "vision_hidden_size",
}


def nemotron_h_omni(config: Config) -> ModelSpec:
    """A tower's norm comes with a text model that predicts several tokens."""
    config = config.with_defaults({}, **_given(config))
    text = text_spec(config, "nemotron_h")
    vision = tower(auto_section(config, "vision_config", "radio", {"video_temporal_patch_size": 2}))
    width = size(config, "vision_hidden_size", 1280)
    inputs, hidden = shuffled_width(config, width), size(config, "projector_hidden_size", 4096)
    encoders = vision.parameters + inputs + mlp(inputs, hidden, text.hidden_size, bias=False)
    if text.mtp is not None:
        encoders += layer_norm(width)
    audio = optional_section(config, "audio_config")
    if audio is not None:
        encoders += _audio(audio, text.hidden_size)
    return whole_text_composite(config, text, encoders)


def _given(config: Config) -> dict[str, str]:
    """A published name counts only where the current one is absent."""
    return {old: new for old, new in PUBLISHED_NAMES.items() if config.get(new) is None}


def _audio(audio: Config, text: int) -> int:
    features = parakeet(audio)
    bias = audio.bool("projection_bias", False)
    projector = mlp(features.width, size(audio, "projection_hidden_size", 4096), text, bias=bias)
    return features.parameters + features.width + projector


PARSERS = {"nemotron_h_omni": nemotron_h_omni}

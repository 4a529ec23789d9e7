"""Qwen with ears: Qwen2-Audio, Qwen3-ASR and the thinkers of Qwen-Omni."""

from trainfit.architectures.composite import (
    auto_section,
    composite,
    own_text_spec,
    section,
    text_spec,
)
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    linear,
    linear_step,
    mlp,
    norm_step,
    projected,
    size,
)
from trainfit.architectures.encoders.qwen_vl import qwen2_5_vl_vision, qwen3_vl_vision
from trainfit.architectures.encoders.towers import tower
from trainfit.architectures.encoders.whisper import qwen2_5_omni_audio, qwen3_omni_audio
from trainfit.architectures.multimodal.qwen_vl import qwen3_experts_decoder
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.encoder import Encoder, Projection

_QWEN3_OMNI = {
    "vocab_size": 3584,
    "hidden_size": 2048,
    "intermediate_size": 18944,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}
_QWEN3_ASR_TEXT = {
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": True,
}


def qwen3_omni_moe_text(config: Config) -> ModelSpec:
    return qwen3_experts_decoder(config.with_defaults(_QWEN3_OMNI))


def qwen2_audio(config: Config) -> ModelSpec:
    text = text_spec(config, "qwen2")
    features = tower(auto_section(config, "audio_config", "qwen2_audio_encoder"))
    projector = linear(features.width, text.hidden_size)
    encoders = features.parameters + projector
    return composite(
        config,
        text,
        encoders,
        tied=None,
        frozen=features.frozen,
        projector=projector,
        encoder=_halved(features, text.hidden_size),
    )


def _halved(features: Tower, text: int) -> Encoder | None:
    """Two frames are averaged before the norm behind the layers, and one linear follows. Source:
    modeling_qwen2_audio.py (Qwen2AudioEncoder).
    """
    width = features.width
    encoder = projected(features.encoder, linear_step(text, "linear"), patches=2)
    if encoder is None:
        return None
    averaged = (Projection(kind="pool", width=width), norm_step(width, "layernorm"))
    return encoder.model_copy(update={"last_norm": False, "padded": True, "adapter": averaged})


def qwen3_asr(config: Config) -> ModelSpec:
    text = text_spec(config, "qwen3", _QWEN3_ASR_TEXT)
    audio = auto_section(config, "audio_config", "qwen3_asr_encoder")
    features = tower(audio)
    projector = mlp(features.width, features.width, size(audio, "output_dim", 3584))
    return composite(config, text, features.parameters + projector, tied=True)


def qwen2_5_omni_thinker(config: Config) -> ModelSpec:
    """What understands in Qwen2.5-Omni; the talker is a model of its own."""
    vision = qwen2_5_vl_vision(section(config, "vision_config"))
    audio = qwen2_5_omni_audio(section(config, "audio_config"))
    text = own_text_spec(config, "qwen2_5_omni_text")
    return composite(config, text, vision.parameters + audio.parameters)


def qwen3_omni_moe_thinker(config: Config) -> ModelSpec:
    vision = qwen3_vl_vision(section(config, "vision_config"))
    audio = qwen3_omni_audio(section(config, "audio_config"))
    text = own_text_spec(config, "qwen3_omni_moe_text")
    return composite(config, text, vision.parameters + audio.parameters)


PARSERS = {
    "qwen2_5_omni_thinker": qwen2_5_omni_thinker,
    "qwen2_audio": qwen2_audio,
    "qwen3_asr": qwen3_asr,
    "qwen3_omni_moe_text": qwen3_omni_moe_text,
    "qwen3_omni_moe_thinker": qwen3_omni_moe_thinker,
}

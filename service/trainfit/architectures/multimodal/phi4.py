"""Phi-4-multimodal: Phi-3's decoder with SigLIP and a conformer."""

from trainfit.architectures.composite import composite, section
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.conformer import phi4_multimodal_audio
from trainfit.architectures.encoders.layers import linear, mlp, patches, size
from trainfit.architectures.encoders.siglip import SO400M, pooling_head, siglip_layers
from trainfit.architectures.registry import parser_of
from trainfit.specs.architecture import ModelSpec


def phi4_multimodal(config: Config) -> ModelSpec:
    """The text's keys stand beside the sections."""
    sizes = config.with_defaults(
        {"vocab_size": 200064, "num_key_value_heads": 8, "max_position_embeddings": 131072}
    )
    text = parser_of("phi3")(sizes)
    vision, audio = section(config, "vision_config"), section(config, "audio_config")
    encoders = _image(vision, text.hidden_size) + _audio(audio, text.hidden_size)
    return composite(config, text, encoders)


def _image(vision: Config, text: int) -> int:
    """Learned vectors part the crops from the whole image."""
    width = size(vision, "hidden_size", 1152)
    tower = siglip_layers(vision, SO400M, 14, patches(vision, 448, 14))
    head = pooling_head(vision, SO400M)
    return tower + head + mlp(width, text, text) + 2 * width


def _audio(audio: Config, text: int) -> int:
    """A projector for speech alone and one for speech with images."""
    features = phi4_multimodal_audio(audio)
    inputs = features.width * size(audio, "downsample_rate", 1)
    return features.parameters + 2 * (linear(inputs, text) + linear(text, text))


PARSERS = {"phi4_multimodal": phi4_multimodal}

"""Aya Vision and Command A Vision: shuffled pixels into a gated projection."""

from trainfit.architectures.composite import auto_section, composite, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import Tower, layer_norm, linear, size
from trainfit.architectures.encoders.towers import tower
from trainfit.architectures.multimodal.llava import SIGLIP_384
from trainfit.specs.architecture import ModelSpec

SIGLIP_512 = {
    "hidden_size": 1152,
    "intermediate_size": 3072,
    "image_size": 512,
    "num_hidden_layers": 27,
}


def aya_vision(config: Config) -> ModelSpec:
    features = tower(auto_section(config, "vision_config", "siglip_vision_model", SIGLIP_384))
    text = text_spec(config, "cohere2")
    inputs = _shuffled(config, features)
    hidden = size(config, "alignment_intermediate_size", text.hidden_size)
    projector = layer_norm(inputs) + _gated_projector(inputs, hidden, text.hidden_size)
    return composite(config, text, features.parameters + projector, tied=True)


def cohere2_vision(config: Config) -> ModelSpec:
    features = tower(auto_section(config, "vision_config", "siglip_vision_model", SIGLIP_512))
    text = text_spec(config, "cohere2")
    hidden = size(config, "alignment_intermediate_size", 36864)
    projector = _gated_projector(_shuffled(config, features), hidden, text.hidden_size)
    return composite(config, text, features.parameters + projector, tied=True)


def _shuffled(config: Config, features: Tower) -> int:
    return int(features.width * size(config, "downsample_factor", 2) ** 2)


def _gated_projector(inputs: int, hidden: int, text: int) -> int:
    """Half of the hidden features gate the other half."""
    return linear(inputs, hidden) + linear(hidden // 2, text)


PARSERS = {"aya_vision": aya_vision, "cohere2_vision": cohere2_vision}

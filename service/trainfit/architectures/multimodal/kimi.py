"""Kimi K2.5: DeepSeek's decoder with MoonViT."""

from trainfit.architectures.composite import composite, section, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import layer_norm, mlp, size
from trainfit.architectures.encoders.moonvit import kimi_k25_vision, merged_width
from trainfit.specs.architecture import ModelSpec


def kimi_k25(config: Config) -> ModelSpec:
    """Published configs name the text `kimi_k2`, which is DeepSeek V3."""
    vision = section(config, "vision_config")
    features = kimi_k25_vision(vision)
    text = text_spec(config, "deepseek_v3")
    merged = merged_width(vision, features.width)
    projector = layer_norm(size(config, "projection_hidden_size", 1152)) + mlp(
        merged, merged, text.hidden_size
    )
    return composite(config, text, features.parameters + projector, tied=True)


PARSERS = {"kimi_k25": kimi_k25}

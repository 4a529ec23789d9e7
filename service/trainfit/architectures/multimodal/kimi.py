"""Kimi with MoonViT: VL and K2.5 over DeepSeek's decoder, K3 over Kimi Linear's."""

from trainfit.architectures.composite import composite, own_text_spec, section, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import layer_norm, mlp, size
from trainfit.architectures.encoders.moonvit import kimi_k3_vision, kimi_k25_vision, merged_width
from trainfit.specs.architecture import ModelSpec


def kimi_k25(config: Config) -> ModelSpec:
    """Published configs name the text `kimi_k2`, which is DeepSeek V3."""
    return _over_deepseek(config, size(config, "projection_hidden_size", 1152), tied=True)


def kimi_vl(config: Config) -> ModelSpec:
    """Source: the class of NeMo Automodel, nemo_automodel/components/models/kimivl/model.py, which
    loads the published weights.
    """
    normed = size(section(config, "vision_config"), "hidden_size", 1152)
    return _over_deepseek(config, normed, tied=False)


def _over_deepseek(config: Config, normed: int, *, tied: bool) -> ModelSpec:
    """What the tower makes is `normed` over so many features before two linears."""
    vision = section(config, "vision_config")
    features = kimi_k25_vision(vision)
    text = text_spec(config, "deepseek_v3")
    merged = merged_width(vision, features.width)
    projector = layer_norm(normed) + mlp(merged, merged, text.hidden_size)
    return composite(config, text, features.parameters + projector, tied=tied)


def kimi_k3(config: Config) -> ModelSpec:
    """Source: modeling_kimi_k3.py of the model's repository."""
    vision = section(config, "vision_config")
    features = kimi_k3_vision(vision)
    text = own_text_spec(config, "kimi_linear")
    merged = merged_width(vision, features.width)
    projector = mlp(merged, merged, text.hidden_size, bias=False) + text.hidden_size
    return composite(config, text, features.parameters + projector)


PARSERS = {"kimi_k25": kimi_k25, "kimi_k3": kimi_k3, "kimi_vl": kimi_vl}

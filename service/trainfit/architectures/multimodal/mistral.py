"""Mistral with a Pixtral tower: patches merged before two linear layers."""

from trainfit.architectures.composite import auto_section, composite, own_text_spec, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    linear,
    linear_step,
    mlp,
    norm_step,
    projected,
    size,
    two_linears,
)
from trainfit.architectures.encoders.towers import tower
from trainfit.architectures.multimodal.llava import feature_projector
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.encoder import Encoder, Projection

PIXTRAL_1540 = {"image_size": 1540, "patch_size": 14}
PIXTRAL_LARGE = {
    **PIXTRAL_1540,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 30,
}
SMALL_3_1 = {
    "hidden_size": 5120,
    "intermediate_size": 32768,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 131072,
}
LIGHTON_TEXT = {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
}


def mistral3(config: Config) -> ModelSpec:
    features = tower(auto_section(config, "vision_config", "pixtral", PIXTRAL_1540))
    text = text_spec(config, "mistral", SMALL_3_1)
    projector = merging_projector(config, features, text.hidden_size)
    encoders = features.parameters + projector
    encoder = _merged_by(config, features, text.hidden_size)
    return composite(config, text, encoders, tied=True, projector=projector, encoder=encoder)


def lighton_ocr(config: Config) -> ModelSpec:
    features = tower(auto_section(config, "vision_config", "pixtral", PIXTRAL_1540))
    text = text_spec(config, "qwen3", LIGHTON_TEXT)
    projector = _merger(config, features.width) + mlp(
        features.width, text.hidden_size, text.hidden_size, bias=False
    )
    return composite(config, text, features.parameters + projector, tied=True)


def mistral_large4(config: Config) -> ModelSpec:
    features = tower(auto_section(config, "vision_config", "pixtral", PIXTRAL_LARGE))
    text = own_text_spec(config, "mistral_large4_text")
    encoders = features.parameters + merging_projector(config, features, text.hidden_size)
    return composite(config, text, encoders)


def merging_projector(config: Config, features: Tower, text: int) -> int:
    """A norm, the merging of patches, and the projector of Llava."""
    return _merger(config, features.width) + feature_projector(
        config, features.width, text, bias=False, layer=-1
    )


def _merged_by(config: Config, features: Tower, text: int) -> Encoder | None:
    """The tower whose last layer is read, its patches normed and laid side by side. Source:
    modeling_mistral3.py (Mistral3MultiModalProjector).
    """
    if config.get("vision_feature_layer", -1) != -1:
        return None
    width, side = features.width, size(config, "spatial_merge_size", 2)
    return projected(
        features.encoder,
        norm_step(width, "rmsnorm"),
        Projection(kind="merge", width=side**2 * width),
        linear_step(width, "merging_layer", bias=False),
        *two_linears(
            text,
            activation=config.str("projector_hidden_act", "gelu"),
            bias=config.bool("multimodal_projector_bias", False),
        ),
        patches=side**2,
    )


def _merger(config: Config, width: int) -> int:
    merged = size(config, "spatial_merge_size", 2) ** 2
    return width + linear(merged * width, width, bias=False)


PARSERS = {
    "lighton_ocr": lighton_ocr,
    "mistral3": mistral3,
    "mistral_large4": mistral_large4,
}

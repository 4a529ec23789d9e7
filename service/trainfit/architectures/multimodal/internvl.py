"""InternVL and Qianfan-OCR: shuffled pixels, a norm and two linear layers."""

from trainfit.architectures.composite import composite, section, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.internvl import (
    intern_vit,
    internvl_vision,
    qianfan_ocr_vision,
)
from trainfit.architectures.encoders.layers import (
    Tower,
    layer_norm,
    mlp,
    norm_step,
    projected,
    two_linears,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.encoder import Projection


def internvl(config: Config) -> ModelSpec:
    features = internvl_vision(section(config, "vision_config"))
    return _shuffled(config, features, text_spec(config, "qwen2"), tied=True)


def internvl_chat(config: Config) -> ModelSpec:
    """As OpenGVLab publishes it: heads are never tied, whatever the text's section says. Source:
    OpenGVLab/InternVL, internvl_chat/internvl/model/internvl_chat.
    """
    features = intern_vit(
        section(config, "vision_config"),
        config.int("select_layer", -1),
        config.optional_int("force_image_size"),
    )
    text = text_spec(config, "llama", key="llm_config")
    return _shuffled(config, features, text, tied=None)


def _shuffled(config: Config, features: Tower, text: ModelSpec, *, tied: bool | None) -> ModelSpec:
    """A projector of the patches that lie on one another."""
    projector = _projector(config, features, text.hidden_size)
    encoders = features.parameters + projector
    inputs = shuffled_width(config, features.width)
    encoder = projected(
        features.encoder,
        Projection(kind="merge", width=inputs),
        norm_step(inputs, "layernorm"),
        *two_linears(text.hidden_size, activation=config.str("projector_hidden_act", "gelu")),
        patches=inputs // features.width,
    )
    return composite(config, text, encoders, tied=tied, projector=projector, encoder=encoder)


def qianfan_ocr(config: Config) -> ModelSpec:
    features = qianfan_ocr_vision(section(config, "vision_config"))
    text = text_spec(config, "qwen3")
    projector = _projector(config, features, text.hidden_size)
    return composite(config, text, features.parameters + projector, projector=projector)


def shuffled_width(config: Config, width: int) -> int:
    """Features of the patches that `downsample_ratio` lays on one another."""
    ratio = config.float("downsample_ratio", 0.5)
    if not 1 / 64 <= ratio <= 1:
        raise config.error("downsample_ratio", "must be between 1/64 and 1")
    return int(width * int(1 / ratio) ** 2)


def _projector(config: Config, features: Tower, text: int) -> int:
    inputs = shuffled_width(config, features.width)
    return layer_norm(inputs) + mlp(inputs, text, text)


PARSERS = {"internvl": internvl, "internvl_chat": internvl_chat, "qianfan_ocr": qianfan_ocr}

"""Granite Vision, Granite-Docling and Granite Speech."""

from trainfit.architectures.composite import (
    auto_section,
    composite,
    own_text_spec,
    section,
    text_spec,
)
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.conformer import granite_speech_encoder
from trainfit.architectures.encoders.layers import (
    Tower,
    layer_norm,
    linear,
    mlp,
    patches,
    size,
)
from trainfit.architectures.encoders.qformer import q_former
from trainfit.architectures.encoders.siglip import SIGLIP, siglip_layers
from trainfit.architectures.encoders.towers import tower
from trainfit.specs.architecture import ModelSpec


def granite4_vision(config: Config) -> ModelSpec:
    """A projector for each pair of layers in `deepstack_layer_map`, and four for corners."""
    text = own_text_spec(config, "granite4_vision_text")
    vision = auto_section(config, "vision_config", "clip_vision_model")
    features = tower(vision)
    pairs = len(config.list("deepstack_layer_map")) + 4
    projector = _window_projector(config, features, text.hidden_size)
    newline = text.hidden_size
    return composite(config, text, features.parameters + pairs * projector + newline)


def granite_docling(config: Config) -> ModelSpec:
    text = own_text_spec(config, "granite_docling_text")
    vision = section(config, "vision_config")
    encoders = siglip_layers(vision, SIGLIP, 16, patches(vision, 512, 16))
    encoders += _connector(vision) + _density_router(config, vision)
    return composite(config, text, encoders, tied=True)


def granite_speech(config: Config) -> ModelSpec:
    """A window of frames becomes a few queries of a querying transformer."""
    text = text_spec(config, "granite")
    features = granite_speech_encoder(section(config, "encoder_config"))
    former = section(config, "projector_config")
    width = size(former, "hidden_size", 768)
    queries = size(config, "window_size", 15) // size(config, "downsample_rate", 5)
    projector = (
        queries * width
        + q_former(former, text_input=former.bool("use_qformer_text_input", False))
        + linear(width, text.hidden_size)
    )
    return composite(config, text, features.parameters + projector, tied=True)


def _window_projector(config: Config, features: Tower, text: int) -> int:
    """`downsample_rate` says how many queries read how large a window: "4/8" is 16 for 64."""
    rate = config.str("downsample_rate").split("/")
    if len(rate) != 2 or not all(side.isdecimal() and len(side) < 5 for side in rate):
        raise config.error("downsample_rate", "must be two sides as in 4/8")
    queries, window = int(rate[0]) ** 2, int(rate[1]) ** 2
    width = features.width
    former = section(
        config, "qformer_config", {"num_hidden_layers": 1, "cross_attention_frequency": 1}
    )
    seeing = {**former.values, "hidden_size": width, "encoder_hidden_size": width}
    return (
        q_former(
            Config(seeing, former.path),
            text_input=former.bool("use_qformer_text_input", False),
        )
        + layer_norm(width)
        + (queries + window) * width
        + linear(width, text)
    )


def _connector(vision: Config) -> int:
    """A coarse path and, unless switched off, a fine one between three norms."""
    width, text = size(vision, "hidden_size", 768), size(vision, "out_hidden_size", 1024)
    scale = size(vision, "scale_factor", 4)
    indexes = vision.get("deepstack_visual_indexes")
    deep = 3 if indexes is None else len(vision.list("deepstack_visual_indexes"))
    paths = [scale, scale // 2] if vision.bool("use_fine_route", True) else [scale]
    total = layer_norm(width) + 2 * layer_norm(text) + linear(text, text, bias=False)
    for side in paths:
        merged = width * side**2
        merger = layer_norm(merged) + mlp(merged, text, text)
        total += linear(merged, text, bias=False) + deep * merger
    return total


def _density_router(config: Config, vision: Config) -> int:
    hidden = config.optional_int("density_router_hidden_size")
    if hidden is None:
        return 0
    width = size(vision, "hidden_size", 768)
    return linear(width, 1) + layer_norm(width) + mlp(width, hidden, 1)


PARSERS = {
    "granite4_vision": granite4_vision,
    "granite_docling": granite_docling,
    "granite_speech": granite_speech,
    "granite_speech_plus": granite_speech,
}

"""Llava and its line: features of chosen tower layers through two linear layers."""

from trainfit.architectures.composite import auto_section, composite, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import Tower, layer_norm, mlp, projected, two_linears
from trainfit.architectures.encoders.towers import tower
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.encoder import Encoder, Projection

CLIP_336 = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "patch_size": 14,
    "image_size": 336,
}
SIGLIP_384 = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 26,
    "patch_size": 14,
    "image_size": 384,
    "vision_use_head": False,
}


def llava(config: Config) -> ModelSpec:
    text, features = text_spec(config, "llama"), _clip(config)
    projector = feature_projector(config, features.width, text.hidden_size)
    encoders = features.parameters + projector
    encoder = _read_by(config, features, text.hidden_size)
    return composite(config, text, encoders, promoted=True, projector=projector, encoder=encoder)


def llava_next(config: Config) -> ModelSpec:
    """Tiles of an image, and the whole of it, are read as images are; what pads them is cut from
    the tokens behind the projector. Source: modeling_llava_next.py (pack_image_features).
    """
    text, features = text_spec(config, "llama"), _clip(config)
    whole = _with_newline(config, text, features, promoted=False)
    projector = feature_projector(config, features.width, text.hidden_size)
    encoder = _read_by(config, features, text.hidden_size)
    return whole.model_copy(update={"projector_parameters": projector, "encoder": encoder})


def llava_next_video(config: Config) -> ModelSpec:
    return _with_newline(config, text_spec(config, "llama"), _clip(config), promoted=True)


def llava_onevision(config: Config) -> ModelSpec:
    features = tower(auto_section(config, "vision_config", "siglip_vision_model", SIGLIP_384))
    text = text_spec(config, "qwen2")
    return _with_newline(config, text, features, promoted=True, layer=-1)


def video_llava(config: Config) -> ModelSpec:
    """A tower for images and one for video."""
    text, features = text_spec(config, "llama"), _clip(config, image=224)
    projector = feature_projector(config, features.width, text.hidden_size)
    return composite(config, text, 2 * features.parameters + projector)


def vipllava(config: Config) -> ModelSpec:
    text, features = text_spec(config, "llama"), _clip(config)
    inputs = features.width * feature_layers(config, (-2, -5, -8, -11, 6))
    projector = layer_norm(inputs) + mlp(inputs, text.hidden_size, text.hidden_size)
    return composite(config, text, features.parameters + projector)


def feature_layers(config: Config, default: int | tuple[int, ...]) -> int:
    """How many layers of the tower are read, side by side."""
    value = config.get("vision_feature_layer", default)
    return len(value) if isinstance(value, list | tuple) else 1


def feature_projector(
    config: Config, width: int, text: int, *, bias: bool = True, layer: int = -2
) -> int:
    """`bias` and the tower's `layer` are the class's defaults."""
    inputs = width * feature_layers(config, layer)
    return mlp(inputs, text, text, bias=config.bool("multimodal_projector_bias", bias))


def _read_by(config: Config, features: Tower, text: int) -> Encoder | None:
    """The tower as far as its layers are read, whose norm behind them is not, and two linears.
    Source: modeling_llava.py (get_image_features).
    """
    encoder = features.encoder
    if encoder is None:
        return None
    value = config.get("vision_feature_layer", -2)
    chosen = value if isinstance(value, list | tuple) else (value,)
    last = encoder.num_layers
    if not chosen or not all(isinstance(each, int) and -last <= each <= last for each in chosen):
        return None
    read = max(each if each >= 0 else last + 1 + each for each in chosen)
    if not read:
        return None
    changes: dict[str, object] = {
        "num_layers": read,
        "unread_layers": last - read,
        "last_norm": False,
    }
    if config.str("vision_feature_select_strategy", "default") == "full" and encoder.image_patches:
        rows = encoder.image_patches + encoder.class_tokens
        changes |= {"image_patches": rows, "class_tokens": 0}
    beside = Projection(kind="merge", width=len(chosen) * features.width)
    steps = two_linears(
        text,
        activation=config.str("projector_hidden_act", "gelu"),
        bias=config.bool("multimodal_projector_bias", True),
    )
    if len(chosen) > 1:
        steps = [beside, *steps]
    return projected(encoder.model_copy(update=changes), *steps)


def _clip(config: Config, image: int = 336) -> Tower:
    defaults = {**CLIP_336, "image_size": image}
    return tower(auto_section(config, "vision_config", "clip_vision_model", defaults))


def _with_newline(
    config: Config, text: ModelSpec, features: Tower, *, promoted: bool, layer: int = -2
) -> ModelSpec:
    """A learned vector of the text's width ends each row of patches."""
    projector = feature_projector(config, features.width, text.hidden_size, layer=layer)
    encoders = features.parameters + projector + text.hidden_size
    return composite(config, text, encoders, promoted=promoted)


PARSERS = {
    "llava": llava,
    "llava_next": llava_next,
    "llava_next_video": llava_next_video,
    "llava_onevision": llava_onevision,
    "video_llava": video_llava,
    "vipllava": vipllava,
}

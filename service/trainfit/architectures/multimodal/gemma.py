"""Gemma's composites: Gemma 3, 3n and 4, ShieldGemma 2, PaliGemma."""

from trainfit.architectures.composite import (
    auto_section,
    composite,
    optional_section,
    own_text_spec,
    section,
    text_spec,
)
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.gemma import (
    gemma3n_audio,
    gemma3n_vision,
    gemma4_audio,
    gemma4_vision,
)
from trainfit.architectures.encoders.layers import (
    Tower,
    layer_norm,
    linear,
    linear_step,
    norm_step,
    patches,
    projected,
    size,
)
from trainfit.architectures.encoders.towers import tower
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.encoder import Projection

PALIGEMMA_TEXT = {
    "hidden_size": 2048,
    "intermediate_size": 16384,
    "num_hidden_layers": 18,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "vocab_size": 257152,
}
PALIGEMMA_VISION = {
    "hidden_size": 1152,
    "intermediate_size": 4096,
    "num_hidden_layers": 27,
    "patch_size": 14,
    "image_size": 224,
    "vision_use_head": False,
}


def gemma3(config: Config) -> ModelSpec:
    text = own_text_spec(config, "gemma3_text")
    return _siglip_pooled(config, text, tied=True)


def shieldgemma2(config: Config) -> ModelSpec:
    return _siglip_pooled(config, text_spec(config, "gemma3_text"), promoted=True)


def paligemma(config: Config) -> ModelSpec:
    """The projection ends at the tower's `projection_dim`, which the outer config decides."""
    text = text_spec(config, "gemma", PALIGEMMA_TEXT)
    features = tower(auto_section(config, "vision_config", "siglip_vision_model", PALIGEMMA_VISION))
    width = size(config, "projection_dim", 2048)
    projector = linear(features.width, width)
    encoder = projected(features.encoder, linear_step(width, "linear"))
    encoders = features.parameters + projector
    return composite(config, text, encoders, tied=True, projector=projector, encoder=encoder)


def gemma3n(config: Config) -> ModelSpec:
    """Each modality also has hard tokens of its own: a small embedding with a norm."""
    text = own_text_spec(config, "gemma3n_text")
    encoders = 0
    for key, read in (("vision_config", gemma3n_vision), ("audio_config", gemma3n_audio)):
        modality = section(config, key)
        features = read(modality)
        embedder = (
            size(modality, "vocab_size", 128) * features.width
            + 2 * features.width
            + linear(features.width, text.hidden_size, bias=False)
        )
        encoders += features.parameters + embedder
    return composite(config, text, encoders, tied=True)


def gemma4(config: Config) -> ModelSpec:
    text = own_text_spec(config, "gemma4_text")
    encoders = 0
    for key, read in (("vision_config", gemma4_vision), ("audio_config", gemma4_audio)):
        modality = optional_section(config, key)
        if modality is not None:
            features = read(modality)
            encoders += features.parameters + linear(features.width, text.hidden_size, bias=False)
    return composite(config, text, encoders, tied=True)


def gemma4_unified(config: Config) -> ModelSpec:
    """No towers: raw patches and waveform frames are projected into the text."""
    text = own_text_spec(config, "gemma4_unified_text")
    vision = optional_section(config, "vision_config")
    audio = optional_section(config, "audio_config")
    frame = 0 if audio is None else size(audio, "audio_embed_dim", 640)
    encoders = linear(frame, text.hidden_size, bias=False)
    if vision is not None:
        patches = _unified_patches(vision)
        encoders += patches.parameters + linear(patches.width, text.hidden_size, bias=False)
    return composite(config, text, encoders, tied=True)


def _siglip_pooled(config: Config, text: ModelSpec, **tying: bool) -> ModelSpec:
    """The tower, of whose patches an average makes each of so many tokens an image, the norm of
    these and one matrix.
    """
    vision = auto_section(config, "vision_config", "siglip_vision_model")
    features, width = tower(vision), text.hidden_size
    projector = linear(features.width, width, bias=False) + features.width
    tokens = size(config, "mm_tokens_per_image", 256)
    encoder = projected(
        features.encoder,
        Projection(kind="pool", width=features.width),
        norm_step(features.width, "rmsnorm"),
        linear_step(width, bias=False),
        patches=-(-patches(vision, 224, 16) // tokens),
    )
    encoders = features.parameters + projector
    return composite(config, text, encoders, projector=projector, encoder=encoder, **tying)


def _unified_patches(vision: Config) -> Tower:
    """A dense layer between two norms, and normed positions of rows and columns."""
    side = size(vision, "patch_size", 16) * size(vision, "pooling_kernel_size", 3)
    pixels = 3 * side * side
    width = size(vision, "mm_embed_dim", 3840)
    positions = size(vision, "mm_posemb_size", 1120) * 2 * width
    norms = layer_norm(pixels) + 2 * layer_norm(width)
    return Tower(size(vision, "output_proj_dims", 3840), linear(pixels, width) + positions + norms)


PARSERS = {
    "gemma3": gemma3,
    "gemma3n": gemma3n,
    "gemma4": gemma4,
    "gemma4_unified": gemma4_unified,
    "paligemma": paligemma,
    "shieldgemma2": shieldgemma2,
}

"""OCR models that read with SAM: GOT-OCR 2, PP-Chart2Table, Unlimited-OCR, DeepSeek-OCR 2."""

from collections.abc import Callable

from trainfit.architectures.composite import composite, own_text_spec, section, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.clip import clip_layers
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    convolution,
    count,
    linear,
    mlp,
    pair,
    patches,
    size,
)
from trainfit.architectures.encoders.sam import sam, sam_tower
from trainfit.specs.architecture import ModelSpec

GOT_TEXT = {
    "vocab_size": 151860,
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "tie_word_embeddings": True,
}


def got_ocr2(config: Config) -> ModelSpec:
    """Two strided convolutions take the neck's channels to the text's width."""
    text = text_spec(config, "qwen2", GOT_TEXT)
    features = sam_tower(section(config, "vision_config"))
    channels, width = features.width, text.hidden_size
    projector = (
        convolution(channels, 2 * channels, 3, 3, bias=False)
        + convolution(2 * channels, width, 3, 3, bias=False)
        + linear(width, width)
    )
    return composite(config, text, features.parameters + projector, tied=True)


def unlimited_ocr(config: Config) -> ModelSpec:
    """SAM's features and those of a CLIP that reads them, side by side.

    The original config calls the text's section `language_config`.
    """
    key = "language_config" if config.get("text_config") is None else "text_config"
    text = own_text_spec(config, "unlimited_ocr_text", key=key)
    vision = section(config, "vision_config")
    reader = _clip_without_patches(section(vision, "encoder_config"))
    detail = _downsampled(section(vision, "sam_config"), sam_tower, (512, 1024))
    projector = linear(detail.width + reader.width, text.hidden_size)
    separators = 2 * text.hidden_size
    encoders = detail.parameters + reader.parameters + projector + separators
    return composite(config, text, encoders)


def deepseek_ocr2(config: Config) -> ModelSpec:
    """A Qwen2 decoder reads SAM's features for learned queries of two resolutions."""
    text = own_text_spec(config, "deepseek_ocr2_text")
    vision = section(config, "vision_config")
    reader = _qwen2_reader(section(vision, "encoder_config"))
    detail = _downsampled(section(vision, "sam_config"), sam, (512, 896))
    queries = (12 * 12 + 16 * 16) * reader.width
    projector = linear(reader.width, text.hidden_size)
    separator = text.hidden_size
    encoders = detail.parameters + reader.parameters + queries + projector + separator
    return composite(config, text, encoders)


def _downsampled(
    config: Config, read: Callable[[Config], Tower], channels: tuple[int, int]
) -> Tower:
    """A SAM tower with two strided convolutions behind its neck."""
    features = read(config)
    key = "downsample_channels"
    first, last = channels if config.get(key) is None else pair(config, key)
    convolutions = convolution(features.width, first, 3, 3, bias=False) + convolution(
        first, last, 3, 3, bias=False
    )
    return Tower(last, features.parameters + convolutions)


def _clip_without_patches(config: Config) -> Tower:
    """CLIP's layers over another tower's features; no norm behind them."""
    width = size(config, "hidden_size", 1024)
    tokens = patches(config, 224, 14) + 1
    layers = clip_layers(config, width, ffn=4096, depth=24)
    return Tower(width, width + tokens * width + 2 * width + layers)


def _qwen2_reader(config: Config) -> Tower:
    width, heads = size(config, "hidden_size", 4096), size(config, "num_attention_heads", 32)
    head = size(config, "head_dim", width // heads)
    groups = config.optional_int("num_key_value_heads", 32) or heads
    layer = (
        2 * width
        + attention(width, query=heads * head, key_value=groups * head, out_bias=False)
        + mlp(width, size(config, "intermediate_size", 22016), gated=True, bias=False)
    )
    return Tower(width, count(config, "num_hidden_layers", 32) * layer + width)


PARSERS = {
    "deepseek_ocr2": deepseek_ocr2,
    "got_ocr2": got_ocr2,
    "pp_chart2table": got_ocr2,
    "unlimited_ocr": unlimited_ocr,
}

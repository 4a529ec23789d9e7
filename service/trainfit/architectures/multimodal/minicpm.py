"""MiniCPM-V 4.6 and 4.7 and MiniCPM-OCR: windows are merged inside the tower and after it."""

from trainfit.architectures.composite import composite, section, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    attention,
    count,
    layer_norm,
    mlp,
    patches,
    plane,
    size,
)
from trainfit.architectures.encoders.siglip import SIGLIP, siglip_layers
from trainfit.specs.architecture import ModelSpec


def minicpmv(config: Config) -> ModelSpec:
    return _minicpm(config, tied=False)


def minicpm_ocr(config: Config) -> ModelSpec:
    return _minicpm(config, tied=True)


def _minicpm(config: Config, *, tied: bool) -> ModelSpec:
    text = text_spec(config, "qwen3_5_text")
    vision = section(config, "vision_config").with_defaults(SIGLIP)
    width = size(vision, "hidden_size")
    encoders = (
        siglip_layers(vision, SIGLIP, 16, patches(vision, 224, 16))
        + _window_merger(vision, width)
        + _mergers(config, width, text.hidden_size)
    )
    return composite(config, text, encoders, tied=tied)


def _window_merger(vision: Config, width: int) -> int:
    """Attention within windows, whose patches a feed-forward then makes one."""
    rows, columns = plane(vision, "window_kernel_size", 2)
    window = width * rows * columns
    ffn = size(vision, "intermediate_size") * rows * columns
    return layer_norm(width) + attention(width) + layer_norm(window) + mlp(window, ffn, width)


def _mergers(config: Config, width: int, text: int) -> int:
    """`merger_times` mergers of four patches, the last one to the text's width."""
    times = count(config, "merger_times", 1)
    merged = 4 * width
    between = layer_norm(merged) + mlp(merged, merged, width)
    return max(times - 1, 0) * between + layer_norm(merged) + mlp(merged, merged, text)


PARSERS = {
    "minicpm_ocr": minicpm_ocr,
    "minicpmv4_6": minicpmv,
    "minicpmv4_7": minicpmv,
}

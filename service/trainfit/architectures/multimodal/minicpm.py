"""MiniCPM-V 2.6, whose queries gather what a tower makes; 4.6, 4.7 and MiniCPM-OCR, where windows
are merged inside the tower and after it.
"""

from trainfit.architectures.composite import composite, flat_text_spec, section, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    attention,
    count,
    layer_norm,
    linear,
    mlp,
    patches,
    plane,
    size,
)
from trainfit.architectures.encoders.siglip import SIGLIP, SO400M, siglip_layers
from trainfit.specs.architecture import ModelSpec


def minicpmv(config: Config) -> ModelSpec:
    return _minicpm(config, tied=False)


def minicpm_ocr(config: Config) -> ModelSpec:
    return _minicpm(config, tied=True)


def minicpmv_2_6(config: Config) -> ModelSpec:
    """Qwen2's decoder, whose keys stand beside the tower's section; under other versions of the
    type stand other decoders. Source: modeling_minicpmv.py and resampler.py of the model's
    repository.
    """
    if str(config.get("version")) != "2.6":
        raise config.error("version", "must be 2.6: other versions of MiniCPM-V are not read")
    text = flat_text_spec(config, "qwen2")
    vision = section(config, "vision_config").with_defaults({**SO400M, "image_size": 980})
    tower = siglip_layers(vision, SO400M, 14, patches(vision, 980, 14))
    queries, width = size(config, "query_num", 64), text.hidden_size
    resampler = (
        queries * width
        + linear(size(vision, "hidden_size"), width, bias=False)
        + attention(width)
        + 3 * layer_norm(width)
        + width * width
    )
    return composite(config, text, tower + resampler)


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
    "minicpmv": minicpmv_2_6,
    "minicpmv4_6": minicpmv,
    "minicpmv4_7": minicpmv,
}

"""Inkling: patches folded step by step, mel bins as words; Inkling 2 with a tower."""

from itertools import pairwise
from math import ceil, log

from trainfit.architectures.composite import composite, own_text_spec, section
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    count,
    layer_norm,
    linear,
    mlp,
    scaled,
    size,
    transformer_layer,
)
from trainfit.specs.architecture import ModelSpec

Scale = tuple[int, int]
"""Pixels that one vector stands for, over all frames, and its channels."""


def inkling_mm_model(config: Config) -> ModelSpec:
    """Published configs declare the text's extra depths in a section of their own."""
    named = section(config, "text_config")
    depths = section(config, "mtp_config").get("num_nextn_predict_layers")
    declared = {} if depths is None else {"num_mtp_layers": depths}
    given = Config({"text_config": {**declared, **named.values}})
    text = own_text_spec(given, "inkling_text")
    width = text.hidden_size
    audio = section(config, "audio_config")
    bins = size(audio, "n_mel_bins", 80) * size(audio, "mel_vocab_size", 256)
    encoders = bins * width + width + _folding(section(config, "vision_config"), width)
    return composite(config, text, encoders, tied=None)


def inkling2(config: Config) -> ModelSpec:
    text = own_text_spec(config, "inkling2_text")
    vision = section(config, "vision_config").with_defaults(
        {}, native_patch_size="patch_size", adapter_merge_size="spatial_merge_size"
    )
    return composite(config, text, _tower(vision), tied=None)


def _tower(vision: Config) -> int:
    """Layer scales, a learned grid of positions and a class token with a position of its own."""
    width = size(vision, "hidden_size", 1024)
    given = vision.optional_int("intermediate_size")
    ffn = scaled(vision, width, "mlp_ratio", 4.0) if given is None else given
    patch = size(vision, "patch_size", 20)
    pixels = size(vision, "num_channels", 3) * patch * patch
    scales = 2 * width
    merged = width * size(vision, "spatial_merge_size", 2) ** 2
    merger = mlp(
        merged,
        size(vision, "projection_hidden_dim", 4096),
        size(vision, "text_hidden_size", 4608),
        bias=vision.bool("projector_bias", False),
    )
    return (
        linear(pixels, width, bias=False)
        + (size(vision, "posemb_grid_size", 32) ** 2 + 2) * width
        + layer_norm(width)
        + count(vision, "num_hidden_layers", 23) * (transformer_layer(width, ffn) + scales)
        + merger
    )


def _folding(vision: Config, text: int) -> int:
    """One matrix a layer; all but the last, which ends in the text's width, have a norm."""
    depth = size(vision.with_defaults({}, n_layers="num_hidden_layers"), "num_hidden_layers", 24)
    plan = _plan(vision, depth)
    total = text
    for index, (start, end) in enumerate(pairwise(plan)):
        last = index == depth - 1
        outputs = text if last else end[1]
        total += linear(start[1] * (end[0] // start[0]), outputs, bias=False)
        total += 0 if last else outputs
    return total


def _plan(vision: Config, depth: int) -> list[Scale]:
    """The scale before and after each layer: of all scales those nearest to an even growth."""
    scales = _scales(vision)
    if len(scales) > depth:
        raise vision.error("num_hidden_layers", f"must be {len(scales)} or more")
    if depth > 256:
        raise vision.error("num_hidden_layers", "must be at most 256")
    whole = log(scales[-1][0] * size(vision, "num_channels", 3))
    ideal = [whole * step / depth for step in range(1, depth)]
    between = [min(scales, key=lambda scale: abs(log(scale[0]) - even)) for even in ideal]
    return [scales[0], *between, scales[-1]]


def _scales(vision: Config) -> list[Scale]:
    """First the patch's sides grow by their prime factors, largest first, then its frames."""
    channels = size(vision, "num_channels", 3)
    scales, side = [(1, channels)], 1
    for factor in _prime_factors(size(vision, "patch_size", 40)):
        side *= factor
        scales.append((side**2, 64 * ceil(side**2 * channels / 64)))
    frames = 1
    for factor in _prime_factors(size(vision, "temporal_patch_size", 2)):
        frames *= factor
        scales.append((side**2 * frames, 64 * side**2 * channels * frames))
    return scales


def _prime_factors(number: int) -> list[int]:
    factors, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return sorted(factors + [number] * (number > 1), reverse=True)


PARSERS = {"inkling2": inkling2, "inkling_mm_model": inkling_mm_model}

"""Tokens of a sample that stand for images, where a launch says how large and how many these are.

An image has a token for each square of patches that the tower merges. Source: transformers'
models/qwen2_vl/image_processing_qwen2_vl.py (smart_resize), and ms-swift's MAX_PIXELS and
IMAGE_MAX_TOKEN_NUM (qwen_vl_utils).
"""

from __future__ import annotations

from trainfit.launch.effects import Effect
from trainfit.launch.models import config_of
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.source import as_int

IMAGE_TOKENS = "/training/image_tokens"
LENGTH = "/training/seq_length"
PIXELS = ("max_pixels", "image_max_pixels", "image_resolution")
"""Arguments that bound the pixels of an image."""
OF_SWIFT = "MAX_PIXELS"
TOKENS_OF_SWIFT = "IMAGE_MAX_TOKEN_NUM"
"""Variables of ms-swift that bound those, or its tokens."""
IMAGES = "vllm_limit_mm_per_prompt.image"
OTHER_MEDIA = ("vllm_limit_mm_per_prompt.video", "vllm_limit_mm_per_prompt.audio")
FEWER = Effect(
    "an image may be smaller, and a sample may have none",
    "lowers",
    "transformers/models/qwen2_vl/image_processing_qwen2_vl.py: smart_resize",
    within={IMAGE_TOKENS: 0},
)


def put_images(run: TrainerRun) -> None:
    """Set the most tokens of images that a sample has; where the number of images is not said, the
    bounds span from none to all of a sample anyway.
    """
    count, largest = run.arguments.get(IMAGES), _largest(run)
    given = [] if count is None else [as_int(count.value)]
    given += [as_int(each.value) for key in OTHER_MEDIA if (each := run.arguments.get(key))]
    length = run.draft.settled(LENGTH)
    if count is None or largest is None or not given[0] or any(given[1:]) or length is None:
        return
    setting, tokens = largest
    run.draft.put(IMAGE_TOKENS, min(given[0] * tokens, length), setting, count)
    run.draft.leave_out(setting, FEWER)


def _largest(run: TrainerRun) -> tuple[Setting, int] | None:
    """What bounds the size of an image, and the tokens of one that is as large."""
    environment = run.program.environment
    if (tokens := environment.get(TOKENS_OF_SWIFT)) is not None and tokens.unknown is None:
        number = as_int(tokens.value)
        return None if number is None else (tokens, number)
    pixels = next((each for key in PIXELS if (each := run.arguments.get(key))), None)
    pixels = pixels or environment.get(OF_SWIFT)
    tower = (config_of(run.draft) or {}).get("vision_config")
    sizes = tower if isinstance(tower, dict) else {}
    patch, merged = (sizes.get(name) for name in ("patch_size", "spatial_merge_size"))
    if pixels is None or pixels.unknown is not None:
        return None
    if not (isinstance(patch, int) and isinstance(merged, int) and patch and merged):
        return None
    number = as_int(pixels.value)
    return None if number is None else (pixels, number // (patch * merged) ** 2)

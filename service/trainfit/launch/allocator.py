"""How PyTorch's allocator is set up by the environment of a program."""

from __future__ import annotations

from collections.abc import Mapping

from trainfit.launch.draft import Draft
from trainfit.launch.settings import Setting

VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""The name before and since torch 2.9."""


def grows_segments(environment: Mapping[str, Setting], draft: Draft) -> bool:
    """Set whether segments grow (expandable_segments) where a variable says so, and tell it."""
    for name in VARIABLES:
        setting = environment.get(name)
        if setting is None:
            continue
        options = dict(
            option.strip().partition(":")[::2] for option in str(setting.value).split(",")
        )
        if "expandable_segments" in options:
            grows = options["expandable_segments"].casefold() == "true"
            draft.put("/framework/expandable_segments", grows, setting)
            return grows
    return False

"""Where something was asked for: the phase of the step, and functions with no path of anybody's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from trainfit.measurements.snapshots.recording import text
from trainfit.specs.snapshot import MAX_FRAMES, Phase

LONGEST = 64
"""Frames of a stack that are looked at."""
PACKAGES = ("/site-packages/", "/dist-packages/")
SAFE = re.compile(r"[^\w.<>:/ -]")
PLUMBING = (
    "torch/nn/modules/module.py",
    "torch/utils/_contextlib.py",
    "torch/autograd/function.py",
)
"""What calls whatever it is given, and so tells nothing."""


def place_of(frames: object) -> tuple[Phase, tuple[str, ...]]:
    """The phase, and the innermost functions. What has no frames was asked for by a thread of
    autograd, which runs backward without Python.
    """
    known = [each for each in _frames(frames) if isinstance(each, dict)]
    calls = [(text(each, "filename"), text(each, "name")) for each in known]
    shown = [_shown(file, name) for file, name in calls if not file.endswith(PLUMBING)]
    return _phase(calls), tuple(shown[:MAX_FRAMES])


def _frames(frames: object) -> Sequence[Any]:
    return frames[:LONGEST] if isinstance(frames, list | tuple) else ()


def _phase(calls: Sequence[tuple[str, str]]) -> Phase:
    for file, name in calls:
        if "optim" in file and ("step" in name or "/torch/optim/" in file):
            return "optimizer"
        if "backward" in name or "autograd::" in name:
            return "backward"
    return "forward" if calls else "backward"


def _shown(file: str, name: str) -> str:
    """A function and its file: that of an installed package from there on, any other by its name
    alone, since the folders that it lies in are somebody's.
    """
    installed = [file.rpartition(each)[2] for each in PACKAGES if each in file]
    short = min(installed, key=len) if installed else file.rpartition("/")[2]
    return SAFE.sub("", f"{name} {short}")[:256]

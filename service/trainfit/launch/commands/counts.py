"""How many GPUs a launcher, or the scheduler around it, gives a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainfit.launch.overriding import at
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting

BY_OVERRIDES = "give /parallelism/num_gpus in overrides"
MAX_COUNT = 1 << 24
"""Of nodes, or of GPUs; no machine has as many."""


def counted(setting: Setting) -> Setting:
    """The setting with its number as a number; not known where it has none."""
    if setting.unknown is not None:
        return setting
    text = str(setting.value)
    if text.isdecimal() and len(text) < 9 and 0 < int(text) <= MAX_COUNT:
        return replace(setting, value=int(text))
    return replace(setting, unknown=f"it is no number; {BY_OVERRIDES}")


def nodes(setting: Setting) -> Setting:
    """A number of nodes; a range is known where both of its ends are the same."""
    for separator in ":-":
        least, sign, most = str(setting.value).partition(separator)
        if sign and setting.unknown is None:
            if least == most:
                return counted(replace(setting, value=most))
            why = f"a run may have from {least} to {most} nodes; {BY_OVERRIDES}"
            return replace(setting, unknown=why)
    return counted(setting)


def gpus_per_node(program: TrainingProgram) -> Setting | None:
    """The GPUs that a program finds on a node, as far as what wraps it tells."""
    if program.allocation.gpus_per_node is not None:
        return program.allocation.gpus_per_node
    visible = program.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None or visible.unknown is not None:
        return None
    devices = [each for each in str(visible.value).split(",") if each.strip()]
    return replace(visible, value=len(devices)) if devices else None


A_NODE = 8
"""GPUs of the largest nodes: a run on no more of them has one."""
_COUNTS = re.compile(
    r"\s*import torch\s*[;\n]\s*print\(\s*torch\.cuda\.device_count\(\)\s*\)[;\s]*"
)


def gpus_of_node(program: TrainingProgram, overrides: Mapping[str, Any]) -> int | None:
    """How many GPUs a program finds, where what wraps it or the overrides tell."""
    found = gpus_per_node(program)
    if found is not None:
        return found.value if found.unknown is None and isinstance(found.value, int) else None
    total = at(overrides, "/parallelism/num_gpus")
    return total if isinstance(total, int) and 0 < total <= A_NODE else None


_ELSEWHERE = re.compile(r"\s*import torch_(npu|xla)\s*")
"""Modules for accelerators that are no GPUs."""


def printed(gpus: int | None, words: Sequence[str]) -> tuple[str, int] | None:
    """What a command prints that lists or counts the GPUs of its node, and its status, or that asks
    whether it has another accelerator, which it has not; None of any other.
    """
    name, *rest = words
    python = re.fullmatch(r"python[\d.]*", name) and rest[:1] == ["-c"] and len(rest) == 2
    if python and _ELSEWHERE.fullmatch(rest[1]):
        return "", 1
    if gpus is None:
        return None
    if python:
        return (f"{gpus}\n", 0) if _COUNTS.fullmatch(rest[1]) else None
    listed = any(word in ("-L", "--list-gpus") for word in rest)
    asked = any(word.startswith("--query-gpu=") for word in rest)
    if name != "nvidia-smi" or not (listed or (asked and any("noheader" in each for each in rest))):
        return None
    return "".join(f"GPU {index}\n" for index in range(gpus)), 0


def known(settings: Iterable[Setting | None]) -> tuple[Setting, ...]:
    return tuple(each for each in settings if each is not None)

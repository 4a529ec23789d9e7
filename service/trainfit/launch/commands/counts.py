"""How many GPUs a launcher, or the scheduler around it, gives a program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from trainfit.launch.program import Program
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


def gpus_per_node(program: Program) -> Setting | None:
    """The GPUs that a program finds on a node, as far as what wraps it tells."""
    if program.allocation.gpus_per_node is not None:
        return program.allocation.gpus_per_node
    visible = program.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None or visible.unknown is not None:
        return None
    devices = [each for each in str(visible.value).split(",") if each.strip()]
    return replace(visible, value=len(devices)) if devices else None


def known(settings: Iterable[Setting | None]) -> tuple[Setting, ...]:
    return tuple(each for each in settings if each is not None)

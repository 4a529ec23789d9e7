"""How PyTorch's allocator is set up by the environment of a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainfit.launch.draft import Draft
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.specs.framework import Framework

VARIABLE = "PYTORCH_ALLOC_CONF"
"""Sets it up since torch 2.9."""
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", VARIABLE)
"""The first of these that is set counts, whatever others say; the second on AMD's GPUs alone
(c10/cuda/CUDAAllocatorConfig.h: instance)."""

GROWS = "/framework/expandable_segments"
WHOLE = "/framework/max_split_size_bytes"
DIVISIONS = "/framework/roundup_power2_divisions"

COLLECTS = "garbage_collection_threshold"
"""Nothing is collected unless a program takes a share of its GPU (DeviceCachingAllocator::malloc:
set_fraction)."""
SHARE = "per_process_memory_fraction"


def read_allocator(environment: Mapping[str, Setting], draft: Draft) -> None:
    """Put what a variable says of the allocator into a draft, and leave out what is not modelled
    of it.
    """
    given = [environment[name] for name in VARIABLES if name in environment]
    for setting in given[:1]:
        _put(setting, draft)
    for setting in given[1:]:
        draft.ignore(setting)


def read_allocator_of(program: TrainingProgram, draft: Draft) -> None:
    """What a command's environment says of the allocator, else PyTorch's default: what starts files
    that are sent alone is not known, and leaves whether segments grow open.
    """
    read_allocator(program.environment, draft)
    if program.name is not None:
        draft.default(GROWS, False, "PyTorch")


def _put(setting: Setting, draft: Draft) -> None:
    if setting.unknown is not None:
        draft.put(GROWS, None, setting)
        return
    fields, left = _said(str(setting.value))
    for pointer, value in fields.items():
        draft.put(pointer, value, setting)
    if left:
        draft.leave_out(setting, "; ".join(left))
    elif not fields:
        draft.ignore(setting)


def _said(text: str) -> tuple[dict[str, object], list[str]]:
    """The fields that a text sets, and why what else it says is not modelled. What reads it is
    loaded with the rest of the allocator.
    """
    from trainfit.estimator.allocator import Settings, SettingsError, parse_settings
    from trainfit.estimator.allocator.settings import options_of

    fields: dict[str, object] = {}
    left: list[str] = []
    try:
        options = dict(options_of(text))
    except SettingsError as error:
        return {}, [str(error)]
    for name, value in options.items():
        try:
            settings = parse_settings(f"{name}:{value}")
        except SettingsError as error:
            left.append(str(error))
            continue
        if name == "expandable_segments":
            fields[GROWS] = settings.expandable_segments
        elif name == "max_split_size_mb" and settings.max_split_bytes is not None:
            fields[WHOLE] = settings.max_split_bytes
        elif name == "roundup_power2_divisions":
            fields[DIVISIONS] = _divisions(settings.roundup_power2_divisions)
        elif settings != Settings() and (name != COLLECTS or SHARE in options):
            left.append(f"{name} of PyTorch's allocator is not modelled")
    return fields, left


def _divisions(by_interval: Sequence[int]) -> list[int]:
    """Those of intervals, of which the last one stands for all beyond."""
    found = [max(each, 1) for each in by_interval]
    while len(found) > 1 and found[-1] == found[-2]:
        found.pop()
    return found


def written_allocator(framework: Framework) -> str:
    """The value of the variable that sets the allocator up as a job has it."""
    return ",".join(_written(framework))


def _written(framework: Framework) -> Iterator[str]:
    from trainfit.estimator.allocator.settings import MIB

    if framework.expandable_segments is not False:
        yield "expandable_segments:True"
    if framework.max_split_size_bytes is not None:
        yield f"max_split_size_mb:{framework.max_split_size_bytes // MIB}"
    *first, last = framework.roundup_power2_divisions or (0,)
    if first:
        each = [f"{1 << interval}:{divisions}" for interval, divisions in enumerate(first)]
        yield f"roundup_power2_divisions:[{','.join(each)},>:{last}]"
    elif last:
        yield f"roundup_power2_divisions:{last}"

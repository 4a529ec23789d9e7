"""What PyTorch itself prints: errors of a memory that is full, memory_summary(), memory_stats().

Sources: c10/cuda/CUDACachingAllocator.cpp (the error's text, up to 1.3, 2.0 and since 2.1), for
GPUs of Intel c10/xpu/XPUCachingAllocator.cpp, which at first said nothing of what is free;
torch/cuda/memory.py (memory_summary, memory_stats).
"""

import re
from typing import get_args

from trainfit.measurements.line_format import (
    UNITS,
    Bytes,
    LineFormat,
    Once,
    Times,
    known_by_its_words,
)
from trainfit.specs.artifacts import Counter, Event, PeakWindow

SIZE = r"[\d.]+ \w+"
ALLOWED = rf"(?:{SIZE} allowed; )?"
ACTIVE: Counter = "active_bytes.all.current"
ALONE = rf"Process \d+ has (?={SIZE} memory in use\. Of the allocated)"
"""The only process that is listed: in a container one's own has another number."""
RESERVED: tuple[Counter, ...] = ("allocated_bytes.all.current", "reserved_unallocated")

OUT_OF_MEMORY = LineFormat(
    "out of memory",
    "Tried to allocate",
    r"Tried to allocate",
    (
        Bytes(r"Tried to allocate ", "tried_to_allocate", UNITS),
        Bytes(r"total capac?i?ty of ", "device_capacity", UNITS),
        Bytes(r"of which ", "device_free", UNITS),
        Bytes(r"this process has ", "process_used", UNITS),
        Bytes(rf"is free\. {ALLOWED}{ALONE}", "process_used", UNITS),
        Bytes(r"Of the allocated memory ", "allocated_bytes.all.current", UNITS),
        Bytes(r"is allocated by PyTorch, and ", "reserved_unallocated", UNITS),
        Bytes(r"\(e\.g\., CUDA Graphs\), and ", "reserved_unallocated", UNITS),
        Bytes(r"\bProcess \d+ has ", "process_used", UNITS, holds=RESERVED),
    ),
    moment="out of memory",
)
"""Of several processes that are listed, none of which is called one's own, it is the one with room
for what PyTorch has reserved, where only one has.
"""

ON = r"\((?:GPU|NPU) +\d+; "
OLD_OUT_OF_MEMORY = LineFormat(
    "out of memory",
    "Tried to allocate",
    rf"Tried to allocate (?={SIZE} {ON})",
    (
        Bytes(r"Tried to allocate ", "tried_to_allocate", UNITS),
        Bytes(ON, "device_capacity", UNITS),
        Bytes(r"total capacity; ", "allocated_bytes.all.current", UNITS),
        Bytes(rf"already allocated; (?={SIZE} current active)", ACTIVE, UNITS),
        Bytes(rf"(?:allocated|active); (?={SIZE} free)", "device_free", UNITS),
        Bytes(rf"; {ALLOWED}(?={SIZE} reserved in total)", "reserved_bytes.all.current", UNITS),
        Bytes(rf"free; (?={SIZE} cached)", "reserved_unallocated", UNITS),
    ),
    moment="out of memory",
)
"""Up to 1.3 what is `cached` is what was reserved beside what was allocated. On Ascend
(csrc/core/npu/NPUCachingAllocator.cpp of torch_npu) what is active stands there too; Intel's
extension says nothing of what is free.
"""

DRIVER_OUT_OF_MEMORY = LineFormat(
    "out of memory",
    "out of memory",
    r"\b(?:CUDA|HIP)(?: driver)? error: out of memory|\bCuda failure (?:2 )?'out of memory'",
    (Once("driver_ooms"),),
    moment="out of memory",
)
LIBRARY_OUT_OF_MEMORY = LineFormat(
    "out of memory",
    "_STATUS_ALLOC_FAILED",
    r"\b(?:CUDA error: CUBLAS|cuDNN error: CUDNN|HIPBLAS|CUBLAS)_STATUS_ALLOC_FAILED",
    (Once("driver_ooms"),),
    moment="out of memory",
)
"""Of what asks the driver and not the allocator: a context, a kernel, cuBLAS, NCCL."""

APPLE_OUT_OF_MEMORY = known_by_its_words(
    "out of memory",
    "MPS allocated: ",
    Bytes(r"MPS backend out of memory \(MPS allocated: ", "allocated_bytes.all.current", UNITS),
    moment="out of memory",
)
"""aten/src/ATen/mps/MPSAllocator.mm; what it tried to allocate stands behind."""

ASYNC_OUT_OF_MEMORY = LineFormat(
    "out of memory",
    "Currently allocated ",
    r"\bCurrently allocated +: ",
    (
        Bytes(r"Currently allocated +: ", "allocated_bytes.all.current", UNITS),
        Bytes(r"Requested +: ", "tried_to_allocate", UNITS),
        Bytes(r"Device limit +: ", "device_capacity", UNITS),
        Bytes(r"Free \(according to CUDA\): ", "device_free", UNITS),
    ),
    moment="out of memory",
)
"""Of cudaMallocAsync in the place of PyTorch's own cache (CUDAMallocAsyncAllocator.cpp), five lines
that `unwrapped` puts together.
"""

WHOLE_ERROR = re.compile(
    rf"Tried to allocate {SIZE}(?:"
    rf" {ON}{SIZE} total capacity; {SIZE} already allocated; "
    rf"(?:{SIZE} current active; )?(?:{SIZE} free; )?"
    rf"{ALLOWED}{SIZE} (?:reserved in total by PyTorch|cached)\)|"
    rf"\. GPU \S* ?has a total capac?i?ty of {SIZE}(?: of which {SIZE} is free)?\. "
    rf"{ALLOWED}(?:(?:Including non-PyTorch memory, this process|Process \d+) has "
    rf"{SIZE} memory in use\. )*"
    rf"Of the allocated memory {SIZE} is allocated by PyTorch, "
    rf"(?:with {SIZE} allocated in private pools \(e\.g\., CUDA Graphs\), )?"
    rf"and {SIZE} is reserved by PyTorch but unallocated)"
)
"""What is put together where a terminal has wrapped it."""


def _row(title: str, current: Counter, peak: Counter) -> LineFormat:
    """A row of memory_summary's table: what there is, and the most there was."""
    return LineFormat(
        "memory_summary",
        title,
        rf"\| {title} +\|",
        (
            Bytes(rf"{title} +\| *", current, UNITS),
            Bytes(rf"{title} +\| *\d+ +\w+ +\| *", peak, UNITS, "run"),
        ),
        moment="memory_summary",
    )


SUMMARY = (
    _row("Allocated memory", "allocated_bytes.all.current", "allocated_bytes.all.peak"),
    _row("Active memory", "active_bytes.all.current", "active_bytes.all.peak"),
    _row("Requested memory", "requested_bytes.all.current", "requested_bytes.all.peak"),
    _row("GPU reserved memory", "reserved_bytes.all.current", "reserved_bytes.all.peak"),
    _row(
        "Non-releasable memory", "inactive_split_bytes.all.current", "inactive_split_bytes.all.peak"
    ),
)

SUMMARY_EVENTS = LineFormat(
    "memory_summary",
    "CUDA OOMs:",
    r"\bCUDA OOMs: \d+ +\|",
    (
        Times(r"CUDA OOMs: ", "num_ooms"),
        Times(r"cudaMalloc retries: ", "num_alloc_retries"),
    ),
)

STATISTICS = tuple(each for each in get_args(Counter) if ".all." in each)
"""Those of memory_stats() that are measured: keys of JSON, of a dict or of a list."""
EVENTS: tuple[Event, ...] = ("num_alloc_retries", "num_ooms")
IS = r"['\"]?[:=,] *"


def _statistic(key: Counter) -> LineFormat:
    window: PeakWindow | None = "run" if key.endswith("peak") else None
    figure = Bytes(rf"{re.escape(key)}{IS}", key, 1, window, in_blocks=True)
    return known_by_its_words("memory_stats", key, figure, moment="memory_stats")


def _event(event: Event) -> LineFormat:
    figure = Times(rf"{event}{IS}", event)
    return known_by_its_words("memory_stats", event, figure, moment="memory_stats")


FORMATS = (
    OLD_OUT_OF_MEMORY,
    OUT_OF_MEMORY,
    ASYNC_OUT_OF_MEMORY,
    APPLE_OUT_OF_MEMORY,
    DRIVER_OUT_OF_MEMORY,
    LIBRARY_OUT_OF_MEMORY,
    SUMMARY_EVENTS,
    *SUMMARY,
    *map(_statistic, STATISTICS),
    *map(_event, EVENTS),
)

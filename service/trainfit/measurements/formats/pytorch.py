"""What PyTorch itself prints: errors of a memory that is full, memory_summary(), memory_stats().

Sources: c10/cuda/CUDACachingAllocator.cpp (the error's text, up to 2.0 and since 2.1),
torch/cuda/memory.py (memory_summary, memory_stats).
"""

import re

from trainfit.measurements.line_format import Bytes, LineFormat, Times
from trainfit.specs.artifacts import Counter, Event, PeakWindow

OUT_OF_MEMORY = LineFormat(
    "out of memory",
    "Tried to allocate",
    r"Tried to allocate",
    (
        Bytes(r"Tried to allocate ", "tried_to_allocate", None),
        Bytes(r"total capac?i?ty of ", "device_capacity", None),
        Bytes(r"of which ", "device_free", None),
        Bytes(r"(?:this process has|Process \d+ has) ", "process_used", None),
        Bytes(r"Of the allocated memory ", "allocated_bytes.all.current", None),
        Bytes(r"is allocated by PyTorch, and ", "reserved_unallocated", None),
        Bytes(r"\(e\.g\., CUDA Graphs\), and ", "reserved_unallocated", None),
    ),
    moment="out of memory",
)

OLD_OUT_OF_MEMORY = LineFormat(
    "out of memory",
    "Tried to allocate",
    r"Tried to allocate (?=[\d.]+ \w+ \(GPU \d+;)",
    (
        Bytes(r"Tried to allocate ", "tried_to_allocate", None),
        Bytes(r"\(GPU \d+; ", "device_capacity", None),
        Bytes(r"total capacity; ", "allocated_bytes.all.current", None),
        Bytes(r"already allocated; ", "device_free", None),
        Bytes(r"free; (?:[\d.]+ \w+ allowed; )?", "reserved_bytes.all.current", None),
    ),
    moment="out of memory",
)


def _row(title: str, current: Counter, peak: Counter) -> LineFormat:
    """A row of memory_summary's table: what there is, and the most there was."""
    return LineFormat(
        "memory_summary",
        title,
        rf"\| {title} +\|",
        (
            Bytes(rf"{title} +\| *", current, None),
            Bytes(rf"{title} +\| *\d+ +\w+ +\| *", peak, None, "run"),
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

STATISTICS: tuple[Counter, ...] = (
    "allocated_bytes.all.current",
    "allocated_bytes.all.peak",
    "active_bytes.all.current",
    "active_bytes.all.peak",
    "requested_bytes.all.current",
    "requested_bytes.all.peak",
    "inactive_split_bytes.all.current",
    "inactive_split_bytes.all.peak",
    "reserved_bytes.all.current",
    "reserved_bytes.all.peak",
)
"""Those of memory_stats() that are measured: keys of JSON, of a dict or of a list."""
EVENTS: tuple[Event, ...] = ("num_alloc_retries", "num_ooms")
IS = r"['\"]?[:=,] *"


def _statistic(key: Counter) -> LineFormat:
    window: PeakWindow | None = "run" if key.endswith("peak") else None
    name = re.escape(key)
    figure = Bytes(rf"\b{name}{IS}", key, 1, window)
    return LineFormat("memory_stats", key, rf"\b{name}(?={IS}\d)", (figure,), moment="memory_stats")


def _event(event: Event) -> LineFormat:
    figure = Times(rf"{event}{IS}", event)
    return LineFormat(
        "memory_stats", event, rf"\b{event}(?={IS}\d)", (figure,), moment="memory_stats"
    )


FORMATS = (
    OLD_OUT_OF_MEMORY,
    OUT_OF_MEMORY,
    *SUMMARY,
    *map(_statistic, STATISTICS),
    *map(_event, EVENTS),
)

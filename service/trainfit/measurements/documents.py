"""Whole documents of JSON that runs leave behind -> measurements: the values that tests of
Megatron-LM and Megatron-Bridge keep, what a Trainer of transformers has logged, and the timeline of
PyTorch's profiler.

Sources: tests/functional_tests of Megatron-LM (golden_values_*.json); Megatron-Bridge's
scripts/performance/utils/evaluate.py; transformers/trainer_callback.py (TrainerState, as
trainer_state.json keeps it); torch/profiler/_memory_profiler.py (export_memory_timeline).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from trainfit.measurements.formats.megatron import DIGITS
from trainfit.measurements.line_format import (
    END_OF_A_STEP,
    GB,
    GIB,
    MOST_BYTES,
    MOST_DIGITS,
    count_of,
    resolution,
)
from trainfit.measurements.measurement import Measurement
from trainfit.specs.artifacts import Artifact, Counter, LogFormat, PeakWindow, Place

TIMELINE: LogFormat = "memory_timeline"


class Kept(NamedTuple):
    """What a document calls a counter, whose it is, what one of its figures is in bytes, and how
    many digits of it count, where it is rounded to so many.
    """

    name: str
    counter: Counter
    format: LogFormat
    unit: int
    window: PeakWindow | None = None
    digits: int | None = None


OF_STEPS = (
    Kept("mem-allocated-bytes", "allocated_bytes.all.current", "megatron", 1),
    Kept("mem-max-allocated-bytes", "allocated_bytes.all.peak", "megatron", 1, "run"),
    Kept("mem-reserved-bytes", "reserved_bytes.all.current", "megatron", 1),
)
OF_THE_FIRST_REPORT = (
    Kept("alloc", "allocated_bytes.all.current", "megatron-bridge", GB, None, DIGITS),
    Kept("max_alloc", "allocated_bytes.all.peak", "megatron-bridge", GB, "run", DIGITS),
    Kept("max_reserved", "reserved_bytes.all.peak", "megatron-bridge", GB, "run", DIGITS),
)
LOGGED = (
    Kept("memory/max_active (GiB)", "active_bytes.all.peak", "axolotl", GIB, "run"),
    Kept("memory/max_allocated (GiB)", "allocated_bytes.all.peak", "axolotl", GIB, "run"),
    Kept("memory/device_reserved (GiB)", "reserved_bytes.all.current", "axolotl", GIB),
    Kept("memory(GiB)", "reserved_bytes.all.peak", "ms-swift", GIB, "run"),
)
"""Of the logs of a Trainer by those that add memory to them."""


def read_document(artifact: Artifact) -> list[Measurement] | None:
    """The figures of a document that is known; None of any other text."""
    if artifact.text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        document = json.loads(artifact.text)
    except (ValueError, RecursionError):
        return None
    found = _figures(document, Place(name=artifact.name, line=1))
    return [each for each in found if artifact.format in (None, each.format)] or None


def _figures(document: Any, source: Place) -> Iterator[Measurement]:
    match document:
        case {"max_alloc": int() | float(), **rest} if _beside_steps(rest):
            for kept in OF_THE_FIRST_REPORT:
                yield from _figure(kept, document.get(kept.name), None, source)
        case {"log_history": list(logs)}:
            for each in logs:
                match each:
                    case {"step": step} if type(step) is int and 0 <= step < 10**MOST_DIGITS:
                        for kept in LOGGED:
                            yield from _figure(kept, each.get(kept.name), step, source)
        case dict():
            for kept in OF_STEPS:
                match document.get(kept.name):
                    case {"values": dict(values)}:
                        for step, value in values.items():
                            if step.isascii() and step.isdecimal() and count_of(step) is not None:
                                yield from _figure(kept, value, int(step), source)
        case [[*times], [*sizes]] if times and len(times) == len(sizes):
            yield from _timeline(sizes, source)


def _beside_steps(rest: dict[Any, Any]) -> bool:
    """Whether all that stands beside figures is values by step."""
    figures = {kept.name for kept in OF_THE_FIRST_REPORT}
    return all(isinstance(value, dict) for name, value in rest.items() if name not in figures)


def _figure(kept: Kept, value: Any, step: int | None, source: Place) -> Iterator[Measurement]:
    if type(value) in (int, float) and 0 < value * kept.unit < MOST_BYTES:
        yield Measurement(
            counter=kept.counter,
            bytes=round(value * kept.unit),
            resolution_bytes=resolution(str(value), kept.unit, kept.digits),
            peak_window=kept.window,
            rank=None,
            step=step,
            moment="the first report" if step is None else END_OF_A_STEP,
            format=kept.format,
            source=source,
        )


def _timeline(sizes: list[Any], source: Place) -> Iterator[Measurement]:
    """The highest of a profile, and what was there at its end: rows of bytes by category."""
    rows = [row for row in sizes if isinstance(row, list) and all(type(n) is int for n in row)]
    totals = [sum(row) for row in rows]
    if len(rows) < len(sizes) or not 0 < max(totals) < MOST_BYTES or min(totals) < 0:
        return
    figures: tuple[tuple[Counter, int, PeakWindow | None], ...] = (
        ("allocated_bytes.all.peak", max(totals), "phase"),
        ("allocated_bytes.all.current", totals[-1], None),
    )
    for counter, size, window in figures:
        yield Measurement(
            counter=counter,
            bytes=size,
            resolution_bytes=1,
            peak_window=window,
            rank=None,
            step=None,
            moment="the profile" if window else "the end of the profile",
            format=TIMELINE,
            source=source,
        )

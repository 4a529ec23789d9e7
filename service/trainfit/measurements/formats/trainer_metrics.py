"""Hugging Face Trainer's metrics, as bytes in JSON and as whole MiB in its table.

Source: transformers/trainer_utils.py (TrainerMemoryTracker): what was there before the model, what
each stage added, and what its peak was above that.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from trainfit.measurements.line_format import MIB, MOST_BYTES
from trainfit.measurements.measurement import Measurement, Unread
from trainfit.specs.artifacts import LogFormat, Place

NAME: LogFormat = "transformers"
METRIC = re.compile(
    r"\b(before_init_mem_gpu|(?:init|train)_mem_gpu_(?:alloc|peaked)_delta)['\"]?\s*[:=]\s*"
    r"(-?\d{1,15})(MB)?(?!\d)",
    re.ASCII,
)
STANDING = ("before_init_mem_gpu", "init_mem_gpu_alloc_delta", "train_mem_gpu_alloc_delta")
ABOVE = "train_mem_gpu_peaked_delta"


class Metric(NamedTuple):
    """A metric in bytes, with what one of its last digit is, and its line."""

    bytes: int
    resolution: int
    source: Place


def metrics_of(line: str, source: Place) -> Iterator[tuple[str, Metric]]:
    """The metrics of a line by their names."""
    for name, number, megabytes in METRIC.findall(line):
        unit = MIB if megabytes else 1
        yield name, Metric(int(number) * unit, unit, source)


def peak_of(metrics: dict[str, Metric]) -> Measurement | Unread | None:
    """The peak of training: the sum of all that stood below it, which each metric is a part of."""
    last = metrics.get(ABOVE)
    if last is None:
        return None
    missing = [name for name in STANDING if name not in metrics]
    if missing:
        why = f"a peak is counted from {', '.join(missing)}, which is not there"
        return Unread(last.source, ABOVE, why)
    parts = [last, *(metrics[name] for name in STANDING)]
    size = sum(each.bytes for each in parts)
    if not 0 <= size < MOST_BYTES:
        return Unread(last.source, ABOVE, "what it stands on makes no peak that a card has")
    return Measurement(
        counter="allocated_bytes.all.peak",
        bytes=size,
        resolution_bytes=sum(each.resolution for each in parts),
        peak_window="phase",
        rank=0,
        step=None,
        moment="training",
        format=NAME,
        source=last.source,
    )

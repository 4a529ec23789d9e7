"""The requests of a rank as its allocator serves them: what is held from moment to moment, and
what the GPU is full of at the highest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from trainfit.estimator.allocator import (
    Allocate,
    CachingAllocator,
    Device,
    Fragmentation,
    SegmentSnapshot,
    Settings,
    fragmentation,
)
from trainfit.estimator.tensors import Tensor
from trainfit.estimator.trace.recorder import Trace, TracePart

PartName = Literal["load", "first", "later", "graphs"]
PARTS: tuple[PartName, ...] = get_args(PartName)
MADE = {
    "load": "parameters and buffers",
    "optimizer_step": "the optimizer's states, and what its step borrows",
    "all_gather": "gathered parameters",
    "reduce_scatter": "gradients that are reduced",
}
"""What is made in these moments, where no program names it."""


@dataclass(frozen=True, slots=True)
class TracedMoment:
    """A moment of a rank: the most that is allocated, and reserved, while it lasts. The model is
    loaded (`load`), a `first` step makes the optimizer's states, and each `later` one is alike,
    unless CUDA `graphs` are captured behind it, with which steps then run.
    """

    step: PartName
    moment: str
    allocated_bytes: int
    reserved_bytes: int


class Followed(NamedTuple):
    """The moments of a rank in order, the highest of them, and the segments at the request that
    made it so. `retries` are the times that the whole cache was given back.
    """

    moments: list[TracedMoment]
    peak: TracedMoment
    segments: tuple[SegmentSnapshot, ...]
    retries: int

    @property
    def reserved_bytes(self) -> int:
        return max(each.reserved_bytes for each in self.moments)

    @property
    def fragmentation(self) -> Fragmentation:
        return fragmentation(self.segments)


def follow(trace: Trace, settings: Settings, room_bytes: int | None) -> Followed:
    """What an allocator with so much room, None for any, holds while it serves all requests.

    Raises OutOfMemoryError.
    """
    allocator = CachingAllocator(settings, Device(room_bytes))
    moments, served = [], []
    for name, part in zip(PARTS, trace.steps, strict=False):
        for moment, start, stop in stretches(part):
            allocator.reset_peaks()
            allocator.serve(part[start:stop])
            sizes = allocator.peak_allocated_bytes, allocator.peak_reserved_bytes
            moments.append(TracedMoment(name, _plain(moment), *sizes))
            served.append(allocator.peak_allocation)
    highest = max(range(len(moments)), key=lambda at: moments[at].allocated_bytes)
    again = CachingAllocator(settings, Device(room_bytes))
    for part in trace.steps:
        if again.allocations < served[highest]:
            again.serve(part, served[highest])
    return Followed(moments, moments[highest], again.segments(), allocator.retries)


def stretches(part: TracePart) -> Iterator[tuple[str, int, int]]:
    """The moments of a part with the requests from the first to the one behind the last; what
    comes before any is of the first.
    """
    starts = [(at if number else 0, name) for number, (at, name) in enumerate(part.moments)]
    for (start, name), (stop, _) in pairwise([*starts, (len(part), "")]):
        if start < stop:
            yield name, start, stop


def _plain(moment: str) -> str:
    """The moment without the step that it is of, and without the layer that none is."""
    words = [each for each in moment.split() if each not in (*PARTS[1:], "None")]
    return " ".join(words)


class Names:
    """What the requests of a rank are for, in words."""

    def __init__(self, trace: Trace) -> None:
        self._tensors: Mapping[Hashable, Tensor] = trace.tensors
        self._made: dict[Hashable, str] = {}
        for part in trace.steps:
            for moment, start, stop in stretches(part):
                for request in part[start:stop]:
                    if isinstance(request, Allocate) and isinstance(request.tensor, int):
                        self._made.setdefault(request.tensor, _plain(moment))

    def __call__(self, name: Hashable) -> str:
        """The tensor with its shape, if it has more than a size; or the moment in which something
        else was made.
        """
        tensor = name[0] if isinstance(name, tuple) else self._tensors.get(name, name)
        if isinstance(tensor, Tensor):
            return tensor.name if tensor.shape == (tensor.bytes,) else tensor.formula
        moment, *_ = self._made[name].split()
        return MADE.get(moment, f"made in {moment}")


@dataclass(frozen=True, slots=True)
class TensorsAtPeak:
    """Tensors of one name: how many there are at the peak, and the bytes of all."""

    name: str
    count: int
    bytes: int


def tensors_of(segments: tuple[SegmentSnapshot, ...], names: Names) -> list[TensorsAtPeak]:
    """What the blocks of segments hold, most first."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for segment in segments:
        for block in segment.blocks:
            if block.tensor is not None:
                name = names(block.tensor)
                counts[name] += 1
                sizes[name] += block.requested_bytes
    return [TensorsAtPeak(name, counts[name], size) for name, size in sizes.most_common()]

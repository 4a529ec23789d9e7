"""What PyTorch's caching allocator reserves for the requests of a rank, replayed.

The model is loaded, a first step makes the optimizer's states among what its activations left
behind, and a later one finds the cache as every one after it does. Between free blocks of one size
releases of PyTorch decide differently, and which one runs no job says: what the latest reserves is
expected, and the bounds have them all.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trainfit.estimator.allocator import (
    CachingAllocator,
    Device,
    OutOfMemoryError,
    Request,
    Settings,
    replay,
)
from trainfit.estimator.overhead import CONTEXT
from trainfit.estimator.results import CacheReleases, Interval
from trainfit.estimator.trace.recorder import Trace
from trainfit.resolve.plan import Plan

LOWEST_ADDRESS_FIRST = (2, 11)
"""The last release that takes the block at the lowest address, wherever CUDA has placed it."""


class Reservation(NamedTuple):
    """What a rank reserves at most: of the releases of PyTorch the least, that of the latest, and
    the most; and how often its cache has to go for it.
    """

    low: int
    expected: int
    high: int
    releases: CacheReleases = "none"

    def beyond(self, allocated: Interval) -> Interval:
        """What is reserved above what is allocated, beside either bound of that: if there is more
        to allocate, there is more to reserve.
        """
        beside = (self.low, self.expected, self.high)
        return Interval(*[max(0, each - allocated.expected) for each in beside])


def reservation(recorded: Trace, plan: Plan) -> Reservation:
    """What the requests reserve: as much as the allocator would cache, and on a card that has no
    room for that, what is left of it when it was given back and steps go on.

    Other releases are asked where a later step reserves more than the first, which chooses among
    the blocks of a whole step.
    """
    latest, *others = _ways(plan)
    allocator = _asked(latest, recorded.loaded, recorded.first)
    after_first = allocator.peak_reserved_bytes
    replay(allocator, recorded.later)
    expected = allocator.peak_reserved_bytes
    reserved = [expected]
    if expected > after_first:
        reserved += [_asked(each, *recorded.steps).peak_reserved_bytes for each in others]
    room = plan.gpu.memory_bytes - CONTEXT.expected
    if plan.gpu.memory_bytes and recorded.peak_bytes <= room < expected:
        try:
            steady = [_steady(recorded, each, room) for each in (latest, *others)]
        except OutOfMemoryError:
            pass  # Not even without a cache there is room.
        else:
            (expected, releases), *_ = steady
            low = min(nbytes for nbytes, _ in steady)
            return Reservation(low, expected, max(reserved), releases)
    return Reservation(min(reserved), expected, max(reserved))


def _steady(recorded: Trace, settings: Settings, room: int) -> tuple[int, CacheReleases]:
    """The most that a step reserves on a card with so much room once it has had to release, and
    whether it has to again.
    """
    allocator = _asked(settings, *recorded.steps, room=room)
    before = allocator.retries
    allocator.reset_peaks()
    replay(allocator, recorded.later)
    again = allocator.retries > before
    return allocator.peak_reserved_bytes, "every_step" if again else "once"


def _asked(
    settings: Settings, *steps: Sequence[Request], room: int | None = None
) -> CachingAllocator:
    """The allocator of a card with so much room, None for any, that was asked for all of this."""
    allocator = CachingAllocator(settings, Device(room))
    for requests in steps:
        replay(allocator, requests)
    return allocator


def _ways(plan: Plan) -> Iterator[Settings]:
    """How releases choose between blocks, the latest first. One range of addresses that grows
    leaves them nothing to choose. On AMD's cards it does not grow before 2.11, nor before ROCm 7
    (c10/cuda/CUDACachingAllocator.cpp).
    """
    grows, latest = plan.framework.expandable_segments, Settings()
    growing = Settings(expandable_segments=True)
    before = Settings(release=LOWEST_ADDRESS_FIRST)
    if grows and plan.gpu.vendor != "amd":
        yield growing
        return
    yield from (latest, before)
    if grows:
        yield growing

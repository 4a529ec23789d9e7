"""Requests asked again: under other settings, on another GPU, and step after step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainfit.estimator.allocator.caching import CachingAllocator
from trainfit.estimator.allocator.requests import Request


def replay(
    allocator: CachingAllocator, requests: Iterable[Request], until: int | None = None
) -> None:
    """Ask an allocator for all that is written down, or until it has served so many allocations in
    all: `peak_reservation` stops it where most was reserved.

    Raises OutOfMemoryError where the GPU has no room.
    """
    allocator.serve(requests, until)


@dataclass(frozen=True, slots=True)
class RepeatedSteps:
    """How many steps were run; `periodic` where the last one changed nothing any more."""

    count: int
    periodic: bool


def repeat(allocator: CachingAllocator, step: Sequence[Request], most: int) -> RepeatedSteps:
    """Run a step until it leaves the allocator as it found it, as every later one then does, at
    most so many times.

    Tensors that outlive their step go by names that every step uses again.
    """
    state = allocator.state()
    for count in range(1, most + 1):
        replay(allocator, step)
        before, state = state, allocator.state()
        if state == before:
            return RepeatedSteps(count, periodic=True)
    return RepeatedSteps(most, periodic=False)

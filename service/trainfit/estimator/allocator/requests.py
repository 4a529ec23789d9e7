"""What a program asks of the allocator, written down so that it can be asked again: under other
settings, on another card, and step after step.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trainfit.estimator.allocator.caching import CachingAllocator


class Allocate(NamedTuple):
    """So many bytes for a tensor, on a stream."""

    tensor: Hashable
    nbytes: int
    stream: Hashable = 0


class Free(NamedTuple):
    """A tensor is gone."""

    tensor: Hashable


class RecordStream(NamedTuple):
    """A stream beside its own uses a tensor."""

    tensor: Hashable
    stream: Hashable


class Reach(NamedTuple):
    """A stream has got past so many more frees that wait for it, None for all of them."""

    stream: Hashable
    frees: int | None = None


class EmptyCache(NamedTuple):
    """`torch.cuda.empty_cache()`."""


class BeginPool(NamedTuple):
    """Requests on these streams, None for all, go to a private pool from here on."""

    owner: Hashable
    streams: frozenset[Hashable] | None = None
    capture: bool = True


class EndPool(NamedTuple):
    """They go to the default pool again."""

    owner: Hashable


class ReleasePool(NamedTuple):
    """A graph that uses the private pool is gone."""

    owner: Hashable


Request = Allocate | Free | RecordStream | Reach | EmptyCache | BeginPool | EndPool | ReleasePool


def replay(
    allocator: CachingAllocator, requests: Iterable[Request], until: int | None = None
) -> None:
    """Ask an allocator for all that is written down, or until it has served so many allocations in
    all: `peak_reservation` stops it where most was reserved.

    Raises OutOfMemoryError where the card has no room.
    """
    allocate, free = allocator.allocate, allocator.free
    for request in requests:
        if isinstance(request, Allocate):
            allocate(*request)
            if allocator.allocations == until:
                return
        elif isinstance(request, Free):
            free(*request)
        else:
            _ask(allocator, request)


def _ask(allocator: CachingAllocator, request: Request) -> None:
    """Ask for what is seldom asked for."""
    match request:
        case RecordStream():
            allocator.record_stream(*request)
        case Reach():
            allocator.reach(*request)
        case EmptyCache():
            allocator.empty_cache()
        case BeginPool(owner, streams, capture):
            allocator.begin_pool(owner, streams, capture=capture)
        case EndPool():
            allocator.end_pool(*request)
        case ReleasePool():
            allocator.release_pool(*request)


@dataclass(frozen=True, slots=True)
class Steps:
    """How many steps were run; `periodic` where the last one changed nothing any more."""

    count: int
    periodic: bool


def repeat(allocator: CachingAllocator, step: Sequence[Request], most: int) -> Steps:
    """Run a step until it leaves the allocator as it found it, as every later one then does, at
    most so many times.

    Tensors that outlive their step go by names that every step uses again.
    """
    state = allocator.state()
    for count in range(1, most + 1):
        replay(allocator, step)
        before, state = state, allocator.state()
        if state == before:
            return Steps(count, periodic=True)
    return Steps(most, periodic=False)

"""What a program asks of the allocator, written down so that it can be asked again."""

from collections.abc import Hashable
from typing import NamedTuple


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

"""What an allocator does, entry by entry, as `torch.cuda.memory._record_memory_history` has it.

Source: `TraceEntry` of c10/core/CachingDeviceAllocator.h, and where CUDACachingAllocator.cpp
records one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Literal, NamedTuple

from trainfit.estimator.allocator.caching import CachingAllocator
from trainfit.estimator.allocator.device import Device
from trainfit.estimator.allocator.requests import Allocate, Free, Request
from trainfit.estimator.allocator.settings import Settings

SegmentAction = Literal["segment_alloc", "segment_free", "segment_map", "segment_unmap"]
Action = Literal["alloc", "free_requested", "free_completed"] | SegmentAction


class TraceEntry(NamedTuple):
    """Something that happened to `size` bytes at an address: to those that were requested of a
    block, to a segment, or to pages of an expandable one. `tensor` is what the block is of.
    """

    action: Action
    address: int
    size: int
    stream: Hashable
    tensor: Hashable = None


class History:
    """An allocator that is asked request by request, and what it does."""

    def __init__(self, settings: Settings, capacity_bytes: int | None = None) -> None:
        self._device = _Watched(capacity_bytes)
        self.allocator = CachingAllocator(settings, self._device)
        self._held: dict[Hashable, TraceEntry] = {}
        self._waiting: list[TraceEntry] = []

    def ask(self, request: Request) -> Iterator[TraceEntry]:
        """Serve a request. Raises OutOfMemoryError."""
        allocator, address = self.allocator, 0
        if isinstance(request, Allocate):
            self._device.stream = request.stream
            address = allocator.allocate(*request)
        else:
            allocator.serve((request,))
        if isinstance(request, Free) and (entry := self._held.pop(request.tensor, None)):
            yield entry._replace(action="free_requested")
            self._waiting.append(entry)
        yield from self._completed()
        yield from self._device.take_entries()
        if isinstance(request, Allocate) and request.nbytes > 0:
            tensor, nbytes, stream = request
            entry = self._held[tensor] = TraceEntry("alloc", address, nbytes, stream, tensor)
            yield entry

    def _completed(self) -> Iterator[TraceEntry]:
        """Frees that no other stream keeps waiting any more."""
        if self._waiting:
            still = self.allocator.waiting_addresses
            for entry in self._waiting:
                if entry.address not in still:
                    yield entry._replace(action="free_completed")
            self._waiting = [each for each in self._waiting if each.address in still]


class _Watched(Device):
    """A GPU that tells what is made of it, for requests on a `stream`."""

    __slots__ = ("_entries", "_streams", "stream")

    def __init__(self, capacity_bytes: int | None) -> None:
        super().__init__(capacity_bytes)
        self.stream: Hashable = 0
        self._entries: list[TraceEntry] = []
        self._streams: dict[int, Hashable] = {}

    def take_entries(self) -> list[TraceEntry]:
        """What was not returned so far."""
        entries, self._entries = self._entries, []
        return entries

    def allocate(self, size: int) -> int | None:
        address = super().allocate(size)
        if address is not None:
            self._tell("segment_alloc", address, size, self.stream)
        return address

    def free(self, address: int, size: int) -> None:
        super().free(address, size)
        self._tell("segment_free", address, size, self._streams[address])

    def map(self, segment: int, address: int, size: int) -> bool:
        mapped = super().map(segment, address, size)
        if mapped:
            self._streams.setdefault(segment, self.stream)
            self._tell("segment_map", address, size, self._streams[segment])
        return mapped

    def unmap(self, segment: int, address: int, size: int) -> None:
        super().unmap(segment, address, size)
        self._tell("segment_unmap", address, size, self._streams[segment])

    def _tell(self, action: SegmentAction, address: int, size: int, stream: Hashable) -> None:
        if action == "segment_alloc":
            self._streams[address] = stream
        self._entries.append(TraceEntry(action, address, size, stream))

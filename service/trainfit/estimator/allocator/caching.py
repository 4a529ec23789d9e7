"""PyTorch's CUDA caching allocator, replayed: requests in, segments and what they hold out.

Source: `DeviceCachingAllocator` of c10/cuda/CUDACachingAllocator.cpp; a method names the function
that it follows.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Hashable, Iterable
from itertools import count
from operator import attrgetter
from typing import NamedTuple

from trainfit.estimator.allocator import expandable
from trainfit.estimator.allocator.blocks import Block, NumberedPool, Pool
from trainfit.estimator.allocator.device import Device
from trainfit.estimator.allocator.requests import (
    Allocate,
    BeginPool,
    EmptyCache,
    EndPool,
    Free,
    Reach,
    RecordStream,
    ReleasePool,
    Request,
)
from trainfit.estimator.allocator.settings import MIN_BLOCK, SMALL_SIZE, Settings
from trainfit.estimator.allocator.snapshot import (
    AWAITING,
    INACTIVE,
    SegmentSnapshot,
    snapshot,
)
from trainfit.estimator.allocator.streams import Stream, StreamUses

Tensor = Hashable
"""What the program calls a piece of memory: any value, one at a time."""
Owner = Hashable
"""A private pool, as a CUDA graph has one; None is the default pool."""


class OutOfMemoryError(Exception):
    """The GPU had no room for a request, even with all of the cache given back to it.

    `requested_bytes` were asked for `tensor`, `segment_bytes` of the GPU for them, while so much
    was allocated and reserved.
    """

    def __init__(
        self,
        tensor: Tensor,
        *,
        requested_bytes: int,
        segment_bytes: int,
        allocated_bytes: int,
        reserved_bytes: int,
    ) -> None:
        super().__init__(
            f"no room for the {requested_bytes:,} bytes of {tensor}: {reserved_bytes:,} bytes are"
            f" reserved, {allocated_bytes:,} of these allocated, and {segment_bytes:,} more needed"
        )
        self.tensor = tensor
        self.requested_bytes = requested_bytes
        self.segment_bytes = segment_bytes
        self.allocated_bytes = allocated_bytes
        self.reserved_bytes = reserved_bytes


class _Diversion(NamedTuple):
    """Requests that go to a private pool. `stalls` while no event may be asked for."""

    owner: Owner
    streams: Container[Stream] | None
    stalls: bool


class CachingAllocator:
    """The allocator of one GPU, fed with requests one by one.

    `allocated_bytes` is what the program holds, in blocks as they are rounded;
    `peak_allocated_bytes` the most that was. `allocations` counts the requests served so far,
    `peak_allocation` and `peak_reservation` are its values at the two peaks. `retries` counts the
    times that the whole cache was given back for a request (num_alloc_retries).
    """

    def __init__(self, settings: Settings | None = None, device: Device | None = None) -> None:
        self.settings = settings = Settings() if settings is None else settings
        self.device = device = Device() if device is None else device
        self.allocated_bytes = 0
        self.peak_allocated_bytes = 0
        self.allocations = 0
        self.peak_allocation = 0
        self.peak_reservation = 0
        self.retries = 0
        self._live: dict[Tensor, Block | None] = {}
        self._segments: dict[int, Block] = {}
        self._pools: dict[tuple[bool, Stream, Owner], Pool] = {}
        # Those of nobody's own, by which most requests are served.
        self._small_pools: dict[Stream, Pool] = {}
        self._large_pools: dict[Stream, Pool] = {}
        self._diverted: list[_Diversion] = []
        self._graphs: dict[Owner, int] = {}
        self._uses = StreamUses()
        self._stalled = False
        self._numbers = count(1)
        self._searches = 0
        self._freed_at: dict[Block, int] = {}
        self._rounds = settings.rounds_to_powers
        # With these settings the best fit is not always taken.
        self._chooses = settings.max_split_bytes is not None
        # Which rests of large blocks become blocks of their own (should_split).
        expands, unsplit = settings.expandable_segments, settings.max_split_bytes
        self._least_rest = MIN_BLOCK if expands else SMALL_SIZE + 1
        self._least_unsplit = sys.maxsize if expands or unsplit is None else unsplit
        total = device.total_bytes
        self._allowed_bytes = None if total is None else settings.allowed_bytes(total)
        self._collects = (
            self._allowed_bytes is not None and settings.garbage_collection_threshold > 0
        )

    @property
    def reserved_bytes(self) -> int:
        """What the segments take of the GPU."""
        return self.device.used_bytes

    @property
    def peak_reserved_bytes(self) -> int:
        return self.device.peak_bytes

    @property
    def active_bytes(self) -> int:
        """What is allocated, and what other streams still use."""
        return self.allocated_bytes + self._uses.waiting_bytes

    @property
    def waiting_addresses(self) -> frozenset[int]:
        """Addresses of the blocks that the program has freed and other streams still use."""
        return frozenset(block.address for block in self._uses.waiting)

    def reset_peaks(self) -> None:
        """Start the peaks anew from what is held now (reset_peak_memory_stats)."""
        self.peak_allocated_bytes = self.allocated_bytes
        self.device.peak_bytes = self.device.used_bytes
        self.peak_allocation = self.peak_reservation = self.allocations

    # What the program asks for.

    def allocate(self, tensor: Tensor, nbytes: int, stream: Stream = 0) -> int:
        """Serve a request and return the address of its block, 0 for an empty tensor.

        Raises OutOfMemoryError where the GPU has no room; the cache has then been given back.
        """
        self.serve((Allocate(tensor, nbytes, stream),))
        block = self._live[tensor]
        return 0 if block is None else block.address

    def free(self, tensor: Tensor) -> None:
        """Take a tensor's block back, at once or when the other streams are done with it."""
        self.serve((Free(tensor),))

    def serve(self, requests: Iterable[Request], until: int | None = None) -> None:
        """Serve requests one by one, or until so many allocations were served in all (malloc,
        free). Raises OutOfMemoryError.
        """
        # Tens of thousands come by: what each calls is bound to a name once.
        live, uses, rounds = self._live, self._uses, self._rounds
        small_pools, large_pools = self._small_pools, self._large_pools
        used, chooses, collects = uses.streams, self._chooses, self._collects
        expands, diverted = self.settings.expandable_segments, self._diverted
        least_rest, least_unsplit = self._least_rest, self._least_unsplit
        allocated, allocations = self.allocated_bytes, self.allocations
        highest = self.peak_allocated_bytes
        try:
            for request in requests:
                if type(request) is Free:
                    block = live.pop(request[0])
                    if block is None:
                        continue
                    allocated -= block.size
                    if used and block in used:
                        uses.free(block, capturing=self._stalled)
                    elif collects:
                        self._give_back(block)
                    else:
                        block.pool.add_merged(block)
                elif type(request) is Allocate:
                    tensor, nbytes, stream = request
                    if tensor in live:
                        raise ValueError(f"{tensor} is allocated already")
                    if nbytes <= 0:
                        live[tensor] = None
                        continue
                    if uses.due and not self._stalled:
                        self._take_back()
                    size = self.settings.rounded(nbytes) if rounds else (nbytes + 511) & -512
                    small = size <= SMALL_SIZE
                    pool = (small_pools if small else large_pools).get(stream)
                    if pool is None or diverted:
                        pool = self._pool(small, stream, self._owner(stream))
                    if collects and not small and pool.owner is None:
                        self._searches += 1
                    if chooses:
                        block = self._choose(pool, size)
                    else:
                        block = pool.take_expandable(size) if expands else pool.take(size)
                    if block is None:
                        self.allocated_bytes, self.allocations = allocated, allocations
                        block = self._obtain(pool, size, tensor, nbytes)
                    rest = block.size - size
                    if rest and (small or (rest >= least_rest and size < least_unsplit)):
                        pool.split(block, size)
                    block.requested = nbytes
                    live[tensor] = block
                    allocated += block.size
                    allocations += 1
                    if allocated > highest:
                        highest = self.peak_allocated_bytes = allocated
                        self.peak_allocation = allocations
                    if allocations == until:
                        return
                else:
                    self._ask(request)
        finally:
            self.allocated_bytes, self.allocations = allocated, allocations

    def holds(self, tensor: Tensor) -> bool:
        """Whether the program holds a tensor of this name."""
        return tensor in self._live

    def record_stream(self, tensor: Tensor, stream: Stream) -> None:
        """Another stream than the tensor's own uses it as well (recordStream)."""
        block = self._live[tensor]
        if block is not None and stream != block.pool.stream:
            self._uses.record(block, stream, capturing=self._stalled)

    def withhold(self, nbytes: int, largest: Allocate) -> None:
        """Take so many bytes of what is free and too small for a request, the largest blocks first,
        as what nobody knows of may: that leaves the least room beside what such requests need.
        """
        pool = self._pool(False, largest.stream, self._owner(largest.stream))
        for block in sorted(pool, key=attrgetter("size"), reverse=True):
            if nbytes <= 0:
                return
            if block.size >= largest.nbytes:
                continue
            pool.remove(block)
            size = min(block.size, (nbytes + 511) & -512)
            if block.size - size >= self._least_rest:
                pool.split(block, size)
            self._live["withheld", block.address] = block
            self.allocated_bytes += block.size
            nbytes -= block.size

    def _ask(self, request: Request) -> None:
        """Serve what is seldom asked for."""
        match request:
            case RecordStream():
                self.record_stream(*request)
            case Reach():
                self.reach(*request)
            case EmptyCache():
                self.empty_cache()
            case BeginPool(owner, streams, capture):
                self.begin_pool(owner, streams, capture=capture)
            case EndPool():
                self.end_pool(*request)
            case ReleasePool():
                self.release_pool(*request)

    def reach(self, stream: Stream, frees: int | None = None) -> None:
        """A stream has done its work up to the next so many frees that wait for it, None for all.

        Their blocks come back with the next request, as PyTorch asks for events only then.
        """
        self._uses.reach(stream, frees)

    def empty_cache(self) -> None:
        """Wait for all streams and give every segment that nobody uses back to the GPU, of
        expandable ones every such page (release_cached_blocks).
        """
        if not self._stalled:
            self._uses.reach_all()
            self._take_back()
        for pool in tuple(self._pools.values()):
            if pool.owner is None or not self._graphs[pool.owner]:
                for block in pool:
                    self._release(block)

    def begin_pool(
        self, owner: Owner, streams: Container[Stream] | None = None, *, capture: bool = True
    ) -> None:
        """Serve requests on these streams, None for all, from a private pool: a graph is captured,
        or, without `capture`, `torch.cuda.use_mem_pool` entered (beginAllocateToPool).
        """
        if any(each.owner == owner for each in self._diverted):
            raise ValueError(f"requests go to pool {owner} already")
        self._graphs[owner] = self._graphs.get(owner, 0) + 1
        stalls = capture or self.settings.pools_stall
        self._diverted.append(_Diversion(owner, streams, stalls))
        self._stalled = self._stalled or stalls

    def end_pool(self, owner: Owner) -> None:
        """Serve requests from the default pool again (endAllocateToPool)."""
        self._diverted = [each for each in self._diverted if each.owner != owner]
        self._stalled = any(each.stalls for each in self._diverted)

    def release_pool(self, owner: Owner) -> None:
        """A graph that uses the private pool is gone; after the last one its segments can be given
        back (releasePool).
        """
        self._graphs[owner] -= 1

    # How a request is served.

    def _owner(self, stream: Stream) -> Owner:
        """Whose pool serves requests on a stream."""
        for each in self._diverted:
            if each.streams is None or stream in each.streams:
                return each.owner
        return None

    def _pool(self, small: bool, stream: Stream, owner: Owner) -> Pool:
        """The pool of a request (get_pool)."""
        key = small, stream, owner
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._new_pool(small, stream, owner)
            if owner is None:
                (self._small_pools if small else self._large_pools)[stream] = pool
        return pool

    def _new_pool(self, small: bool, stream: Stream, owner: Owner) -> Pool:
        page = self.settings.page_bytes(small)
        if self.settings.numbers_blocks:
            return NumberedPool(
                self._numbers, small=small, stream=stream, owner=owner, page_bytes=page
            )
        return Pool(
            small=small,
            stream=stream,
            owner=owner,
            page_bytes=page,
            oldest_first=self.settings.oldest_segment_first,
        )

    def _choose(self, pool: Pool, size: int) -> Block | None:
        """The free block that serves a request where not every best fit will do (get_free_block).

        A block that can be expanded counts with the addresses behind it. One that is too large to
        be split serves large requests only, and none that it would exceed by much.
        """
        block = pool.best_fit(size, expandable=self.settings.expandable_segments)
        most = self.settings.max_split_bytes
        if block is None:
            return None
        if most is not None:
            if size < most <= block.size:
                return None
            if size >= most and block.size >= size + self.settings.max_non_split_rounding_bytes:
                return None
        pool.remove(block)
        return block

    def _obtain(self, pool: Pool, size: int, tensor: Tensor, nbytes: int) -> Block:
        """New memory for a request: from the GPU, then with some of the cache given back, then
        with all of it (malloc).
        """
        if self._collects:
            self._collect_garbage()
        block = self._grow(pool, size)
        if block is None and self._release_oversize(pool, size):
            block = self._grow(pool, size)
        if block is None and not self._stalled:
            self.empty_cache()
            self.retries += 1
            block = self._grow(pool, size)
        if block is None:
            raise OutOfMemoryError(
                tensor,
                requested_bytes=nbytes,
                segment_bytes=self.settings.segment_bytes(size),
                allocated_bytes=self.allocated_bytes,
                reserved_bytes=self.reserved_bytes,
            )
        return block

    def _grow(self, pool: Pool, size: int) -> Block | None:
        """A block of new memory, None where the GPU has no room (alloc_block)."""
        wanted, before = self.settings.segment_bytes(size), self.device.peak_bytes
        if self._allowed_bytes is not None and self.reserved_bytes + wanted > self._allowed_bytes:
            return None
        if self.settings.expandable_segments:
            block = expandable.grow(pool, size, self.device)
        else:
            address = self.device.allocate(wanted)
            block = None if address is None else pool.segment(address, wanted, self.device.made)
        if block is not None:
            if block.previous is None:
                self._segments[block.address] = block
            if self.device.peak_bytes > before:
                self.peak_reservation = self.allocations + 1
        return block

    # How memory comes back.

    def _give_back(self, block: Block) -> None:
        """Keep a block that nobody uses as free, merged with its neighbours (free_block)."""
        block = block.pool.add_merged(block)
        if self._collects:
            self._freed_at[block] = self._searches

    def _take_back(self) -> None:
        """Free what streams have been done with since the last request (process_events)."""
        for block in self._uses.take_due():
            self._give_back(block)

    def _release(self, block: Block) -> None:
        """Give a free block back to the GPU where it is all of its segment, of an expandable
        segment its whole pages (release_blocks).
        """
        if block.segment is not None:
            if expandable.unmap(block, self.device):
                del self._segments[block.segment.address]
        elif block.whole:
            block.pool.remove(block)
            del self._segments[block.address]
            self.device.free(block.address, block.size)

    def _release_oversize(self, pool: Pool, size: int) -> bool:
        """Give back blocks too large to be split, the smallest that would do or as many as are
        needed from the largest down; whether that can be enough (release_available_cached_blocks).
        """
        most = self.settings.max_split_bytes
        if most is None or self.settings.expandable_segments:
            return False
        wanted = max(size, most)
        enough = next((block for block in pool if block.size >= wanted), None)
        if enough is not None:
            self._release(enough)
            return True
        released = 0
        for block in reversed(tuple(pool)):
            if released >= wanted or block.size < most:
                break
            released += block.size
            self._release(block)
        return released >= wanted

    def _collect_garbage(self) -> None:
        """Give back unused segments from the oldest on, until reserved memory is below the
        threshold. Age is the number of requests for large blocks since a segment was last used
        (garbage_collect_cached_blocks).
        """
        assert self._allowed_bytes is not None
        threshold = int(self.settings.garbage_collection_threshold * self._allowed_bytes)
        target = self.reserved_bytes - threshold
        unused = [
            block
            for pool in self._pools.values()
            if not pool.small and pool.owner is None
            for block in pool
            if block.whole
        ]
        while target > 0 and unused:
            ages = [self._searches - self._freed_at.get(block, 0) for block in unused]
            mean = sum(ages) / len(ages)
            for block, age in zip(unused, ages, strict=True):
                if age >= mean:
                    target -= block.size
                    self._release(block)
            unused = [block for block, age in zip(unused, ages, strict=True) if age < mean]

    # What is held.

    def state(self) -> Hashable:
        """All that later requests rest on: a step that leaves it as it was does so ever after."""
        free = [block for pool in self._pools.values() for block in pool]
        ranks = {age: rank for rank, age in enumerate(sorted({block.age for block in free}))}
        ages = self._searches if self._collects else None
        return (
            frozenset(
                (tensor, block and block.address, self._uses.of(block))
                for tensor, block in self._live.items()
            ),
            frozenset(
                (
                    *(block.address, block.size, ranks[block.age]),
                    ages and ages - self._freed_at.get(block, 0),
                )
                for block in free
            ),
            frozenset(
                (block.address, block.size)
                for pool in self._pools.values()
                for block in pool.unmapped
            ),
            self._uses.state(),
            tuple((each.owner, each.stalls) for each in self._diverted),
            frozenset(self._graphs.items()),
            self.device.addresses.state(),
        )

    def segments(self) -> tuple[SegmentSnapshot, ...]:
        """The segments with their blocks, by address (snapshot)."""
        tensors = {block: tensor for tensor, block in self._live.items() if block is not None}
        return snapshot((head for _, head in sorted(self._segments.items())), tensors)

    @classmethod
    def resumed(
        cls, segments: Iterable[SegmentSnapshot], settings: Settings, device: Device
    ) -> CachingAllocator:
        """An allocator that holds these segments, oldest first, and goes on from there. Segments
        that expand, and blocks that streams still use, cannot be resumed.
        """
        allocator = cls(settings, device)
        for segment in segments:
            if segment.expandable or any(each.state == AWAITING for each in segment.blocks):
                raise ValueError(f"the segment at {segment.address} cannot be resumed")
            allocator._resume(segment)
        allocator.reset_peaks()
        return allocator

    def _resume(self, segment: SegmentSnapshot) -> None:
        pool = self._pool(segment.small, segment.stream, segment.owner)
        self.device.hold(segment.size)
        block = pool.segment(segment.address, segment.size, self.device.made)
        self._segments[segment.address] = block
        if segment.owner is not None:
            self._graphs.setdefault(segment.owner, 1)
        for each in segment.blocks:
            rest = block.split(each.size) if each.size < block.size else None
            block.requested = each.requested_bytes
            if each.state == INACTIVE:
                pool.add(block)
            else:
                self._live[each.tensor] = block
                self.allocated_bytes += block.size
            if rest is None:
                return
            block = rest

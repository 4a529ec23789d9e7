"""Recordings of PyTorch's caching allocator: what it held, and every request since.

Replayed, every request must get the address that it got, every segment be asked of CUDA when it
was, and the same ones be given back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.accuracy.outcomes import Counts, UnusableRowError, counts
from trainfit.estimator.allocator import (
    Addresses,
    CachingAllocator,
    Device,
    SegmentBlock,
    SegmentSnapshot,
    Settings,
)
from trainfit.estimator.allocator.settings import SMALL_SIZE

Row = dict[str, Any]
Difference = tuple[str, Any, Any]
"""Where, what was recorded and what the replay did."""


def group(row: Row) -> str:  # noqa: ARG001
    return "allocator_traces"


def price(row: Row, folder: Path) -> dict[str, Counts]:  # noqa: ARG001
    """Replay a recording up to the first request that differs."""
    settings = Settings(release=_release(row["torch"]))
    device = Device(addresses=RecordedAddresses())
    allocator = CachingAllocator.resumed(_segments(row, settings), settings, device)
    difference = next(_differences(row["events"], allocator), None)
    if difference is not None:
        where, recorded, replayed = difference
        return {"": counts({where: recorded}, {where: replayed})}
    held = {"reserved": allocator.reserved_bytes, "allocated": allocator.allocated_bytes}
    return {"": counts(row["end"], held)}


class RecordedAddresses(Addresses):
    """CUDA's part as it was recorded: the segments that it is about to hand out, and those that it
    was given back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.recorded: list[tuple[int, int]] = []
        self.given_back: set[tuple[int, int]] = set()

    def take(self, size: int) -> int:
        if self.recorded and self.recorded[0][1] == size:
            return self.recorded.pop(0)[0]
        return super().take(size)

    def give_back(self, address: int, size: int) -> None:
        self.given_back.add((address, size))


def _differences(events: list[list[Any]], allocator: CachingAllocator) -> Iterator[Difference]:
    """Where a replay and what was recorded differ, the first of which is of use.

    Tensors go by their addresses. Segments are given back all at once, where the cache is emptied,
    by the program or because the card was full.
    """
    addresses = allocator.device.addresses
    assert isinstance(addresses, RecordedAddresses)
    released: set[tuple[int, int]] = set()
    for number, (kind, address, nbytes, stream) in enumerate(events):
        where = f"event {number} ({kind} of {nbytes} bytes on stream {stream})"
        if kind == "segment_free":
            released.add((address, nbytes))
            continue
        if released:
            yield from _emptied(allocator, addresses, released, f"segments freed by event {number}")
            released = set()
        if kind == "segment_alloc":
            addresses.recorded.append((address, nbytes))
        elif kind == "alloc":
            served = allocator.allocate(address, nbytes, stream)
            if served != address:
                yield where, address, served
            if addresses.recorded:
                yield where, f"a new segment of {addresses.recorded[0][1]} bytes", "no new segment"
        elif kind == "free":
            if not allocator.holds(address):
                yield where, "a free", "nothing was allocated there"
            allocator.free(address)
        else:
            raise UnusableRowError(f"events of the kind {kind} are not replayed")
    if released:
        yield from _emptied(allocator, addresses, released, "segments freed at the end")


def _emptied(
    allocator: CachingAllocator,
    addresses: RecordedAddresses,
    released: set[tuple[int, int]],
    where: str,
) -> Iterator[Difference]:
    addresses.given_back.clear()
    allocator.empty_cache()
    if addresses.given_back != released:
        yield (
            where,
            sorted(released - addresses.given_back),
            sorted(addresses.given_back - released),
        )


def _segments(row: Row, settings: Settings) -> Iterator[SegmentSnapshot]:
    """What the allocator held when the recording began, blocks and all."""
    segments = sorted(row["segments"])
    starts = [address for address, *_ in segments]
    live: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for address, nbytes in sorted(_there(row)):
        live[starts[bisect_right(starts, address) - 1]].append((address, nbytes))
    touched = _first_touched(row, starts)
    for start, size, kind, stream in segments:
        small = kind == "small"
        rest = 0 if small else SMALL_SIZE
        yield SegmentSnapshot(
            address=start,
            size=size,
            small=small,
            stream=stream,
            owner=None,
            expandable=False,
            blocks=tuple(_blocks(live[start], start, start + size, rest, touched, settings)),
        )


def _blocks(
    live: list[tuple[int, int]],
    start: int,
    end: int,
    rest: int,
    touched: Mapping[int, tuple[str, int]],
    settings: Settings,
) -> Iterator[SegmentBlock]:
    """The blocks of a segment. Recorded is where tensors begin and how large they are, not how
    large their blocks: these have up to so much `rest` that was not worth a split.

    All of a gap behind a tensor that is no larger is such a rest, as nothing so small is free. Of a
    larger one it is what comes before the first request that is served from the gap.
    """
    begins = [address for address, _ in live] + [end]
    if begins[0] > start:
        yield SegmentBlock(start, begins[0] - start, 0, "inactive")
    for (address, nbytes), following in zip(live, begins[1:], strict=True):
        size = settings.rounded(nbytes)
        free_from = address + size
        kind, at = touched.get(address, ("free", 0))
        if following - free_from <= rest:
            free_from = following
        elif kind == "alloc" and free_from < at <= free_from + rest:
            free_from = at
        yield SegmentBlock(address, free_from - address, nbytes, "active_allocated", tensor=address)
        if free_from < following:
            yield SegmentBlock(free_from, following - free_from, 0, "inactive")


def _first_touched(row: Row, segments: list[int]) -> dict[int, tuple[str, int]]:
    """By the address of a tensor that was there: the first event at it, or behind it before the
    next one.
    """
    owners = sorted({*segments, *(address for address, _ in _there(row))})
    touched: dict[int, tuple[str, int]] = {}
    for kind, address, *_ in row["events"]:
        if kind in ("alloc", "free") and (at := bisect_right(owners, address)):
            touched.setdefault(owners[at - 1], (kind, address))
    return touched


def _there(row: Row) -> list[tuple[int, int]]:
    """What was in use when the recording began: tensors, and what is freed later without ever being
    allocated, because a stream was not done with it yet.
    """
    there = [(address, nbytes) for address, nbytes in row["live"]]
    known = {address for address, _ in there}
    for kind, address, nbytes, _ in row["events"]:
        if kind == "free" and address not in known:
            there.append((address, nbytes))
        if kind in ("alloc", "free"):
            known.add(address)
    return there


def _release(torch: str) -> tuple[int, int]:
    major, minor = torch.split(".")[:2]
    return int(major), int(minor)

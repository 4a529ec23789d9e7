"""What holds of the allocator whatever is asked of it."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfit.estimator.allocator import (
    Addresses,
    Allocate,
    CachingAllocator,
    Device,
    Free,
    OutOfMemoryError,
    SegmentSnapshot,
    Settings,
    fragmentation,
    repeat,
    replay,
)

MIB = 1 << 20
CAPACITY = 300 * MIB

SETTINGS = st.sampled_from(
    [
        Settings(),
        Settings(release=(2, 11)),
        Settings(expandable_segments=True),
        Settings(expandable_segments=True, large_segment_bytes=12 * MIB),
        Settings(max_split_bytes=30 * MIB),
        Settings(roundup_power2_divisions=(4,) * 16),
        Settings(garbage_collection_threshold=0.4, memory_fraction=0.8),
    ]
)
SIZES = st.one_of(
    st.integers(0, 2 * MIB), st.sampled_from([2, 5, 9, 12, 20, 31, 64, 100]).map(MIB.__mul__)
)
# What is asked: an allocation, or something done to the tensor at this place among those held.
REQUESTS = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), SIZES, st.integers(0, 2)),
        st.tuples(st.just("free"), st.integers(0, 99), st.just(0)),
        st.tuples(st.just("record"), st.integers(0, 99), st.integers(0, 2)),
        st.tuples(st.just("reach"), st.integers(1, 3), st.integers(0, 2)),
        st.tuples(st.just("empty"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


def run(
    settings: Settings,
    requests: list[tuple[str, int, int]],
    *,
    streams: tuple[Hashable, ...] = (0, 1, 2),
    check: Any = None,
) -> tuple[CachingAllocator, list[Any], list[int]]:
    """Ask for all of it; return the allocator, every answer and the tensors that are left."""
    addresses = Addresses(descending=False)
    held = CachingAllocator(settings, Device(CAPACITY, addresses=addresses))
    answers: list[Any] = []
    tensors: list[int] = []
    for number, (kind, value, stream) in enumerate(requests):
        if kind == "allocate":
            try:
                answers.append(held.allocate(number, value, streams[stream]))
                tensors.append(number)
            except OutOfMemoryError as error:
                answers.append(error.segment_bytes)
        elif kind == "reach":
            held.reach(streams[stream], value)
        elif kind == "empty":
            held.empty_cache()
        elif tensors and kind == "free":
            held.free(tensors.pop(value % len(tensors)))
        elif tensors:
            held.record_stream(tensors[value % len(tensors)], streams[stream])
        if check is not None:
            check(held)
    return held, answers, tensors


def check_segments(held: CachingAllocator) -> None:
    segments = held.segments()
    end = 0
    for segment in segments:
        assert segment.address >= end
        at = segment.address
        for block in segment.blocks:
            assert block.address == at
            assert block.size > 0
            assert block.size % 512 == 0
            at += block.size
        end = segment.address + segment.size
        assert at == end
        if not segment.expandable:
            states = [block.state for block in segment.blocks]
            assert ("inactive", "inactive") not in pairwise(states)
    assert sum(segment.size for segment in segments) == held.reserved_bytes
    check_sums(held, segments)


def check_sums(held: CachingAllocator, segments: tuple[SegmentSnapshot, ...]) -> None:
    blocks = [block for segment in segments for block in segment.blocks]
    allocated = sum(block.size for block in blocks if block.state == "active_allocated")
    awaiting = sum(block.size for block in blocks if block.state == "active_awaiting_free")
    assert (allocated, awaiting) == (held.allocated_bytes, held.active_bytes - held.allocated_bytes)
    assert held.allocated_bytes <= held.active_bytes <= held.reserved_bytes <= CAPACITY
    assert held.allocated_bytes <= held.peak_allocated_bytes
    assert held.reserved_bytes <= held.peak_reserved_bytes <= CAPACITY
    made_of = fragmentation(segments)
    assert held.reserved_bytes == (
        made_of.requested_bytes
        + made_of.rounding_bytes
        + made_of.split_bytes
        + made_of.unused_bytes
    )


@given(SETTINGS, REQUESTS)
def test_blocks_fill_their_segments_and_never_overlap(
    settings: Settings, requests: list[tuple[str, int, int]]
) -> None:
    run(settings, requests, check=check_segments)


@given(SETTINGS, REQUESTS)
def test_the_same_requests_get_the_same_answers(
    settings: Settings, requests: list[tuple[str, int, int]]
) -> None:
    first, answers, _ = run(settings, requests)
    second, again, _ = run(settings, requests)
    assert answers == again
    assert first.segments() == second.segments()
    assert first.state() == second.state()


@given(SETTINGS, REQUESTS)
def test_the_names_of_streams_do_not_matter(
    settings: Settings, requests: list[tuple[str, int, int]]
) -> None:
    _, answers, _ = run(settings, requests)
    _, renamed, _ = run(settings, requests, streams=("reduce", "gather", "default"))
    assert answers == renamed


@given(SETTINGS, REQUESTS)
def test_nothing_is_active_once_all_is_freed_nor_reserved_once_the_cache_is_emptied(
    settings: Settings, requests: list[tuple[str, int, int]]
) -> None:
    held, _, tensors = run(settings, requests)
    for tensor in tensors:
        held.free(tensor)
    assert held.allocated_bytes == 0
    held.empty_cache()
    assert (held.active_bytes, held.reserved_bytes, held.segments()) == (0, 0, ())


@given(SETTINGS, st.lists(st.tuples(SIZES, st.integers(0, 2)), max_size=12), st.integers(0, 12))
def test_a_step_that_is_periodic_stays_so(
    settings: Settings, sizes: list[tuple[int, int]], kept: int
) -> None:
    """Some of what a step allocates stays until the next one replaces it, as gradients do."""
    held = CachingAllocator(settings, Device(4 * CAPACITY))
    made = [Allocate(number, nbytes, stream) for number, (nbytes, stream) in enumerate(sizes)]
    replay(held, made[:kept])
    step = [Free(each.tensor) for each in made[:kept]] + made
    step += [Free(each.tensor) for each in made[kept:]]
    if repeat(held, step, most=8).periodic:
        state, reserved, retries = held.state(), held.reserved_bytes, held.retries
        held.reset_peaks()
        replay(held, step)
        peak = held.peak_reserved_bytes
        assert (held.state(), held.reserved_bytes) == (state, reserved)
        retried = held.retries - retries
        replay(held, step)
        assert (held.peak_reserved_bytes, held.retries) == (peak, retries + 2 * retried)


@given(REQUESTS)
def test_an_allocator_goes_on_from_its_segments_as_if_nothing_had_been(
    requests: list[tuple[str, int, int]],
) -> None:
    settings = Settings(release=(2, 11))
    plain = [each for each in requests if each[0] in ("allocate", "free", "empty")]
    held, _, tensors = run(settings, plain)
    device = Device(CAPACITY, addresses=held.device.addresses)
    resumed = CachingAllocator.resumed(held.segments(), settings, device)
    assert resumed.segments() == held.segments()
    assert resumed.reserved_bytes == held.reserved_bytes
    assert resumed.allocated_bytes == held.allocated_bytes
    for tensor in tensors:
        if resumed.holds(tensor):
            resumed.free(tensor)
            held.free(tensor)
    assert resumed.segments() == held.segments()


def test_what_streams_still_use_cannot_be_resumed() -> None:
    held = CachingAllocator()
    held.allocate("a", MIB)
    held.record_stream("a", 1)
    held.free("a")
    with pytest.raises(ValueError, match="cannot be resumed"):
        CachingAllocator.resumed(held.segments(), Settings(), Device())

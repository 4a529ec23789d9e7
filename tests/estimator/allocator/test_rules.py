"""The allocator's rules, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainfit.estimator.allocator import (
    Addresses,
    Allocate,
    BeginPool,
    CachingAllocator,
    Device,
    EmptyCache,
    EndPool,
    Free,
    OutOfMemoryError,
    Reach,
    RecordStream,
    ReleasePool,
    RepeatedSteps,
    Request,
    Settings,
    fragmentation,
    repeat,
    replay,
)

MIB = 1 << 20
EXPANDABLE = Settings(expandable_segments=True)


def allocator(settings: Settings | None = None, capacity: int | None = None) -> CachingAllocator:
    """An allocator whose segments go up from one to the next, of a card with so many MiB."""
    room = None if capacity is None else capacity * MIB
    return CachingAllocator(settings, Device(room, addresses=Addresses(descending=False)))


def take(held: CachingAllocator, *mib: float, stream: int = 0, first: int = 0) -> list[int]:
    """Allocate tensors of so many MiB, named from `first` on."""
    return [
        held.allocate(first + number, int(size * MIB), stream) for number, size in enumerate(mib)
    ]


@pytest.mark.parametrize(("nbytes", "block"), [(1, 512), (512, 512), (513, 1024), (2000, 2048)])
def test_a_request_is_rounded_up_to_512_bytes(nbytes: int, block: int) -> None:
    held = allocator()
    held.allocate("a", nbytes)
    assert held.allocated_bytes == block


def test_an_empty_tensor_takes_nothing() -> None:
    held = allocator()
    assert held.allocate("a", 0) == 0
    held.record_stream("a", 1)
    held.free("a")
    assert (held.reserved_bytes, held.peak_allocated_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("mib", "segment"), [(0.5, 2), (1, 2), (1.5, 20), (9.5, 20), (10, 10), (10.5, 12), (41, 42)]
)
def test_a_segment_is_as_large_as_its_pool_has_them(mib: float, segment: int) -> None:
    held = allocator()
    take(held, mib)
    assert held.reserved_bytes == segment * MIB


def test_small_and_large_requests_have_pools_of_their_own() -> None:
    held = allocator()
    take(held, 2)
    take(held, 0.5, first=1)
    assert [segment.small for segment in held.segments()] == [False, True]


def test_every_stream_has_pools_of_its_own() -> None:
    held = allocator()
    (first,) = take(held, 30)
    held.free(0)
    (other,) = take(held, 30, stream=1, first=1)
    (again,) = take(held, 30, first=2)
    assert first == again != other


def test_the_smallest_block_that_is_large_enough_serves() -> None:
    held = allocator()
    addresses = take(held, 60, 40, 50)
    for tensor in range(3):
        held.free(tensor)
    assert take(held, 38, first=3) == [addresses[1]]
    assert take(held, 45, first=4) == [addresses[2]]


@pytest.mark.parametrize(("release", "chosen"), [((2, 11), 1), ((2, 12), 0), ((2, 13), 0)])
def test_of_blocks_of_one_size_address_or_since_2_12_age_decides(
    release: tuple[int, int], chosen: int
) -> None:
    held = CachingAllocator(Settings(release=release), Device())
    addresses = take(held, 40, 40)
    assert addresses[1] < addresses[0]
    held.free(0)
    held.free(1)
    assert take(held, 40, first=2) == [addresses[chosen]]


@pytest.mark.parametrize(("release", "chosen"), [((2, 12), 1), ((2, 13), 0)])
def test_in_2_12_a_block_is_as_old_as_its_last_split(release: tuple[int, int], chosen: int) -> None:
    held = CachingAllocator(Settings(release=release), Device())
    addresses = take(held, 40, 40)
    held.free(0)
    take(held, 30, first=2)
    held.free(2)
    held.free(1)
    assert take(held, 40, first=3) == [addresses[chosen]]


@pytest.mark.parametrize(("asked", "block"), [(15, 16), (14.5, 14.5)])
def test_a_rest_above_1_mib_becomes_a_block_of_its_own(asked: float, block: float) -> None:
    held = allocator()
    take(held, 16)
    held.free(0)
    take(held, asked, first=1)
    assert held.allocated_bytes == block * MIB
    assert held.reserved_bytes == 16 * MIB


def test_in_the_small_pool_every_rest_does() -> None:
    held = allocator()
    held.allocate("a", 2 * MIB - 512 - MIB)
    held.allocate("b", MIB)
    (segment,) = held.segments()
    assert [block.size for block in segment.blocks] == [MIB - 512, MIB, 512]


def test_a_freed_block_merges_with_its_free_neighbours() -> None:
    held = allocator()
    take(held, 4, 5, 6)
    held.free(0)
    held.free(2)
    held.free(1)
    (segment,) = held.segments()
    assert [block.size for block in segment.blocks] == [20 * MIB]


def test_a_full_card_gets_all_that_is_unused_back_and_the_request_is_tried_again() -> None:
    held = allocator(capacity=100)
    take(held, 40, 30, 2)
    held.free(0)
    held.free(1)
    take(held, 80, first=3)
    assert (held.retries, held.reserved_bytes) == (1, 100 * MIB)


def test_a_segment_in_part_in_use_is_not_given_back() -> None:
    held = allocator(capacity=45)
    take(held, 2, 12)
    with pytest.raises(OutOfMemoryError) as raised:
        take(held, 30, first=2)
    error = raised.value
    assert (error.tensor, error.requested_bytes, error.segment_bytes) == (2, 30 * MIB, 30 * MIB)
    assert (error.allocated_bytes, error.reserved_bytes) == (14 * MIB, 20 * MIB)
    assert "no room for the 31,457,280 bytes of 2" in str(error)
    assert held.retries == 1


def test_the_program_can_go_on_after_an_out_of_memory() -> None:
    held = allocator(capacity=60)
    take(held, 50)
    with pytest.raises(OutOfMemoryError):
        take(held, 20, first=1)
    held.free(0)
    take(held, 60, first=1)
    assert held.retries == 2


def test_a_tensor_that_another_stream_uses_comes_back_when_that_stream_is_done() -> None:
    held = allocator()
    (address,) = take(held, 40)
    held.record_stream(0, "reduce")
    held.free(0)
    assert (held.allocated_bytes, held.active_bytes) == (0, 40 * MIB)
    assert take(held, 40, first=1) != [address]
    held.reach("reduce")
    assert take(held, 40, first=2) == [address]
    assert held.active_bytes == held.allocated_bytes


def test_frees_that_wait_for_a_stream_come_back_in_order() -> None:
    held = allocator()
    addresses = take(held, 40, 50)
    for tensor in (0, 1):
        held.record_stream(tensor, 1)
        held.free(tensor)
    held.reach(1, 1)
    assert take(held, 40, 50, first=2)[0] == addresses[0]
    assert held.reserved_bytes == 140 * MIB


def test_what_is_withheld_is_of_the_largest_blocks_that_are_too_small() -> None:
    held = allocator()
    take(held, 40, 60, 100)
    for number in range(3):
        held.free(number)
    held.withhold(70 * MIB, Allocate("largest", 100 * MIB))
    assert held.allocated_bytes == 70 * MIB
    assert held.reserved_bytes == 200 * MIB
    take(held, 100, 30, first=3)
    assert held.reserved_bytes == 200 * MIB
    take(held, 2, first=5)
    assert held.reserved_bytes > 200 * MIB


def test_its_own_stream_is_nothing_to_wait_for() -> None:
    held = allocator()
    take(held, 40)
    held.record_stream(0, 0)
    held.free(0)
    assert held.active_bytes == 0


def test_a_full_card_waits_for_the_other_streams() -> None:
    held = allocator(capacity=60)
    take(held, 50)
    held.record_stream(0, 1)
    held.free(0)
    take(held, 40, first=1)
    assert (held.retries, held.active_bytes) == (1, 40 * MIB)


def test_a_graphs_memory_is_given_back_when_the_graph_is_gone() -> None:
    held = allocator()
    held.begin_pool("graph")
    take(held, 40)
    held.end_pool("graph")
    held.free(0)
    assert take(held, 40, first=1) != [held.segments()[0].address]
    held.empty_cache()
    assert held.reserved_bytes == 80 * MIB
    held.release_pool("graph")
    held.empty_cache()
    assert held.reserved_bytes == 40 * MIB


def test_two_graphs_can_share_a_pool() -> None:
    held = allocator()
    for graph in range(2):
        held.begin_pool("shared")
        take(held, 40, first=graph)
        held.end_pool("shared")
        held.free(graph)
    assert held.reserved_bytes == 40 * MIB
    held.release_pool("shared")
    held.empty_cache()
    assert held.reserved_bytes == 40 * MIB


def test_only_the_streams_that_are_captured_use_the_private_pool() -> None:
    held = allocator()
    held.begin_pool("graph", {1})
    take(held, 40)
    take(held, 40, stream=1, first=1)
    assert [segment.owner for segment in held.segments()] == [None, "graph"]


@pytest.mark.parametrize(
    ("release", "capture", "fits"),
    [((2, 13), True, False), ((2, 13), False, True), ((2, 11), False, False)],
)
def test_the_cache_is_not_given_back_while_a_graph_is_captured(
    release: tuple[int, int], capture: bool, fits: bool
) -> None:
    held = allocator(Settings(release=release), capacity=60)
    take(held, 50)
    held.free(0)
    held.begin_pool("pool", capture=capture)
    if fits:
        take(held, 50, first=1)
        assert held.retries == 1
    else:
        with pytest.raises(OutOfMemoryError):
            take(held, 50, first=1)
        assert held.retries == 0


def test_uses_within_a_capture_are_done_when_it_ends() -> None:
    held = allocator()
    (address,) = take(held, 40)
    held.begin_pool("graph", {9})
    held.record_stream(0, 1)
    held.free(0)
    held.end_pool("graph")
    assert held.active_bytes == 40 * MIB
    assert take(held, 40, first=1) == [address]


def test_an_expandable_segment_grows_by_pages() -> None:
    held = allocator(EXPANDABLE)
    take(held, 2)
    assert held.reserved_bytes == 20 * MIB
    take(held, 30, first=1)
    assert held.reserved_bytes == 40 * MIB
    take(held, 0.5, first=2)
    assert held.reserved_bytes == 42 * MIB
    small, large = sorted(held.segments(), key=lambda segment: segment.size)
    assert (small.size, large.size) == (2 * MIB, 40 * MIB)
    assert [block.size for block in large.blocks] == [2 * MIB, 30 * MIB, 8 * MIB]


def test_what_is_free_at_its_end_is_used_before_it_grows() -> None:
    held = allocator(EXPANDABLE)
    (first,) = take(held, 30)
    assert take(held, 50, first=1) == [first + 30 * MIB]
    assert held.reserved_bytes == 80 * MIB


def test_it_splits_off_every_rest() -> None:
    held = allocator(EXPANDABLE)
    held.allocate("a", 20 * MIB - 512)
    (segment,) = held.segments()
    assert [block.size for block in segment.blocks] == [20 * MIB - 512, 512]


def test_a_full_card_gets_the_free_pages_back_and_keeps_the_others() -> None:
    held = allocator(EXPANDABLE, capacity=100)
    take(held, 30, 40, 10)
    held.free(1)
    take(held, 30, stream=1, first=3)
    assert held.retries == 1
    assert held.reserved_bytes == (40 + 20 + 40) * MIB
    sizes = [segment.size // MIB for segment in held.segments() if segment.stream == 0]
    assert sizes == [40, 20]


def test_pages_that_were_given_back_are_filled_first() -> None:
    held = allocator(EXPANDABLE)
    addresses = take(held, 20, 40, 20)
    held.free(1)
    held.empty_cache()
    assert held.reserved_bytes == 40 * MIB
    assert take(held, 35, first=3) == [addresses[1]]


def test_an_expandable_segment_that_is_all_free_is_gone_when_the_cache_is_emptied() -> None:
    held = allocator(EXPANDABLE)
    take(held, 30)
    held.free(0)
    held.empty_cache()
    assert (held.reserved_bytes, held.segments()) == (0, ())


def test_its_pages_are_as_large_as_large_segments() -> None:
    held = allocator(replace(EXPANDABLE, large_segment_bytes=12 * MIB))
    take(held, 2)
    assert held.reserved_bytes == 12 * MIB


def test_blocks_from_max_split_size_on_are_not_split() -> None:
    held = allocator(Settings(max_split_bytes=40 * MIB))
    take(held, 50)
    held.free(0)
    take(held, 45, first=1)
    assert held.allocated_bytes == 50 * MIB


def test_they_serve_no_smaller_request() -> None:
    held = allocator(Settings(max_split_bytes=40 * MIB))
    take(held, 50)
    held.free(0)
    take(held, 30, first=1)
    assert held.reserved_bytes == 80 * MIB


@pytest.mark.parametrize(("limit", "reserved"), [(20, 106), (30, 66)])
def test_they_serve_no_request_that_they_exceed_by_much(limit: int, reserved: int) -> None:
    held = allocator(Settings(max_split_bytes=40 * MIB, max_non_split_rounding_bytes=limit * MIB))
    take(held, 66)
    held.free(0)
    take(held, 40, first=1)
    assert held.reserved_bytes == reserved * MIB


def test_on_a_full_card_one_of_them_goes_before_the_whole_cache() -> None:
    held = allocator(Settings(max_split_bytes=40 * MIB), capacity=160)
    take(held, 50, 70, 20)
    for tensor in range(3):
        held.free(tensor)
    take(held, 35, first=3)
    assert held.retries == 0
    assert held.reserved_bytes == (70 + 20 + 36) * MIB


def test_on_a_full_card_several_of_them_go_from_the_largest_on() -> None:
    held = allocator(Settings(max_split_bytes=40 * MIB), capacity=160)
    take(held, 50, 60, 40)
    for tensor in range(3):
        held.free(tensor)
    take(held, 100, first=3)
    assert held.retries == 0
    assert held.reserved_bytes == (40 + 100) * MIB


@pytest.mark.parametrize(
    ("mib", "block"), [(0.3, 0.3125), (1, 1), (1.1, 1.25), (1200, 1280), (1792, 1792)]
)
def test_sizes_are_rounded_up_to_parts_of_a_power_of_two(mib: float, block: float) -> None:
    settings = Settings(roundup_power2_divisions=(4,) * 16)
    assert settings.rounded(int(mib * MIB)) == block * MIB


def test_every_interval_has_divisions_of_its_own() -> None:
    settings = Settings(roundup_power2_divisions=(0,) * 8 + (2,) + (8,) * 7)
    assert settings.rounded(200 * MIB + 1) == 200 * MIB + 512
    assert settings.rounded(257 * MIB) == 384 * MIB
    assert settings.rounded(100 * 1024 * MIB + 1) == 104 * 1024 * MIB


def test_sizes_of_few_blocks_are_not_rounded_so() -> None:
    settings = Settings(roundup_power2_divisions=(4,) * 16)
    assert settings.rounded(2048) == 2048
    assert settings.rounded(1100) == 1536


def collecting(threshold: float = 0.5) -> CachingAllocator:
    settings = Settings(garbage_collection_threshold=threshold, memory_fraction=0.9)
    return allocator(settings, capacity=200)


def test_garbage_is_collected_from_the_oldest_segments_on() -> None:
    held = collecting()
    take(held, 40, 60)
    held.free(0)
    take(held, 10, stream=1, first=2)
    held.free(1)
    # 110 of 180 MiB are reserved, 20 more than the threshold, and what was freed first goes first.
    take(held, 70, first=3)
    assert held.reserved_bytes == (60 + 10 + 70) * MIB
    assert held.retries == 0


def test_below_the_threshold_nothing_is_collected() -> None:
    held = collecting(0.9)
    take(held, 40, 60)
    held.free(0)
    take(held, 70, first=2)
    assert held.reserved_bytes == 170 * MIB


def test_without_a_share_of_the_card_nothing_is_collected() -> None:
    held = allocator(Settings(garbage_collection_threshold=0.1), capacity=200)
    take(held, 40)
    held.free(0)
    take(held, 60, first=1)
    assert held.reserved_bytes == 100 * MIB


def test_a_share_of_the_card_is_a_limit() -> None:
    held = allocator(Settings(memory_fraction=0.5), capacity=100)
    with pytest.raises(OutOfMemoryError):
        take(held, 52)


@pytest.mark.parametrize(("release", "allowed"), [((2, 12), 39), ((2, 13), 40)])
def test_a_share_is_rounded_down_and_since_2_13_to_the_nearest_byte(
    release: tuple[int, int], allowed: int
) -> None:
    assert Settings(memory_fraction=0.25, release=release).allowed_bytes(159) == allowed
    assert Settings(memory_fraction=0.25, release=release).allowed_bytes(157) == 39


def test_what_others_hold_of_the_card_does_not_change_its_share() -> None:
    device = Device(60 * MIB, total_bytes=100 * MIB)
    held = CachingAllocator(Settings(memory_fraction=0.5), device)
    take(held, 50)
    with pytest.raises(OutOfMemoryError):
        take(held, 2, first=1)


def test_the_peaks_are_where_they_were() -> None:
    requests: list[Request] = [
        Allocate("a", 40 * MIB),
        Allocate("b", 30 * MIB),
        Free("a"),
        Allocate("c", 2 * MIB),
    ]
    held = allocator()
    replay(held, requests)
    assert held.peak_allocated_bytes == held.peak_reserved_bytes == 70 * MIB
    assert held.peak_allocation == held.peak_reservation == 2
    there = allocator()
    replay(there, requests, until=held.peak_reservation)
    assert there.allocated_bytes == 70 * MIB
    assert [block.tensor for s in there.segments() for block in s.blocks] == ["a", "b"]


def test_peaks_start_anew() -> None:
    held = allocator()
    take(held, 40, 30)
    held.free(0)
    held.reset_peaks()
    assert (held.peak_allocated_bytes, held.peak_reserved_bytes) == (30 * MIB, 70 * MIB)
    assert held.peak_allocation == 2


def test_why_more_is_reserved_than_was_asked_for() -> None:
    held = allocator()
    held.allocate("a", 2 * MIB - 100)
    take(held, 30)
    held.free(0)
    made_of = fragmentation(held.segments())
    assert made_of.requested_bytes == 2 * MIB - 100
    assert made_of.rounding_bytes == 100
    assert made_of.split_bytes == 18 * MIB
    assert made_of.unused_bytes == 30 * MIB


def test_steps_are_run_until_nothing_changes_any_more() -> None:
    """What the first step makes lies where its logits were, so the second buys logits again."""
    held = allocator()
    logits: list[Request] = [Allocate("logits", 40 * MIB), Free("logits")]
    replay(held, [*logits, Allocate("state", 30 * MIB)])
    assert held.reserved_bytes == 40 * MIB
    assert repeat(held, logits, most=9) == RepeatedSteps(2, periodic=True)
    assert held.reserved_bytes == 80 * MIB


def test_a_step_that_keeps_more_each_time_is_never_periodic() -> None:
    held = allocator()
    for number in range(3):
        steps = repeat(held, [Allocate(number, 40 * MIB)], most=1)
        assert steps == RepeatedSteps(1, periodic=False)


def test_a_step_that_gives_its_cache_back_each_time_is_periodic_too() -> None:
    held = allocator(capacity=100)
    step: list[Request] = [
        Allocate("x", 60 * MIB),
        Free("x"),
        Allocate("y", 90 * MIB, 1),
        Free("y"),
    ]
    steps = repeat(held, step, most=9)
    assert steps.periodic
    assert held.retries == 2 * steps.count - 1


@pytest.mark.parametrize("settings", [Settings(), EXPANDABLE])
def test_every_request_can_be_written_down(settings: Settings) -> None:
    written: list[Request] = [
        Allocate("a", 40 * MIB),
        RecordStream("a", 1),
        Free("a"),
        Reach(1),
        BeginPool("graph", frozenset({0})),
        Allocate("b", 30 * MIB),
        EndPool("graph"),
        Free("b"),
        ReleasePool("graph"),
        EmptyCache(),
    ]
    held = allocator(settings)
    replay(held, written)
    assert (held.reserved_bytes, held.active_bytes) == (0, 0)
    assert held.allocations == 2


def test_a_name_is_one_tensors_at_a_time() -> None:
    held = allocator()
    held.allocate("a", 1)
    with pytest.raises(ValueError, match="a is allocated already"):
        held.allocate("a", 1)

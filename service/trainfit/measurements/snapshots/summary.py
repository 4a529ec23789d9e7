"""A recording reduced to what a run can be compared by: sizes, how many, when asked for and how
long kept, at the moment of its peak.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Literal, NamedTuple

from pydantic import ValidationError

from trainfit.measurements.snapshots.recording import (
    SnapshotError,
    items,
    number,
    read_recording,
    text,
)
from trainfit.measurements.snapshots.stacks import place_of
from trainfit.specs.snapshot import MAX_GROUPS, Phase, SegmentGroup, SnapshotSummary, TensorGroup

MOST_EVENTS = 2_000_000


class AllocatedBlock(NamedTuple):
    """What was asked for, and by whom; `event` counts from 0, below where it was there before."""

    bytes: int
    frames: object
    event: int


BEFORE = -1


def summarize(file: BinaryIO, rank: int | None = None) -> SnapshotSummary:
    """What a recording says. Raises SnapshotError."""
    recording = read_recording(file)
    try:
        return _summary(recording, rank)
    except ValidationError:
        raise SnapshotError("its sizes are none that a card has") from None


def _summary(recording: dict[str, Any], rank: int | None) -> SnapshotSummary:
    events = _events(recording)
    segments = list(items(recording, "segments"))
    left = dict(_left(segments))
    before = _before(events, left)
    peak_bytes, at = _peak(events, before)
    there = _there(events, before, at)
    groups, rest = _groups(there, left)
    settings = recording.get("allocator_settings")
    grows = isinstance(settings, dict) and bool(settings.get("expandable_segments"))
    actions = Counter(text(each, "action") for each in events)
    return SnapshotSummary(
        rank=rank,
        events=len(events),
        wrapped=_wrapped(events, left),
        expandable_segments=grows or any(each.get("is_expandable") is True for each in segments),
        peak_bytes=peak_bytes,
        peak=groups,
        rest_bytes=rest,
        allocated_bytes=sum(each.bytes for each in left.values()),
        reserved_bytes=sum(number(each, "total_size") for each in segments),
        segments=_segments(segments),
        out_of_memory=actions["oom"],
        released_segments=actions["segment_free"],
    )


def _events(recording: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of the device that has most of them."""
    traces = recording.get("device_traces") or []
    if not isinstance(traces, list):
        raise SnapshotError("device_traces is no list")
    longest = max((each for each in traces if isinstance(each, list)), key=len, default=[])
    if len(longest) > MOST_EVENTS:
        raise SnapshotError(f"it has more than {MOST_EVENTS} events")
    return list(items({"device_traces": longest}, "device_traces"))


def _left(segments: Iterable[dict[str, Any]]) -> Iterator[tuple[int, AllocatedBlock]]:
    """The blocks in use when the recording ended, by their addresses."""
    for segment in segments:
        address = number(segment, "address")
        for block in items(segment, "blocks"):
            size = number(block, "size")
            if text(block, "state") == "active_allocated":
                exact = number(block, "requested_size") if "requested_size" in block else size
                yield address, AllocatedBlock(exact, block.get("frames"), BEFORE)
            address += size


def _asked(events: Iterable[dict[str, Any]]) -> Iterator[tuple[bool, int, int, int, object]]:
    """What is asked for and given back: which of both, its place among the events, address, bytes
    and frames. A block is given back when that is asked, though streams may hold it for longer.
    """
    for place, each in enumerate(events):
        action = text(each, "action")
        if action in ("alloc", "free_requested", "free"):
            asked = action == "alloc"
            yield asked, place, number(each, "addr"), number(each, "size"), each.get("frames")


def _before(
    events: list[dict[str, Any]], left: dict[int, AllocatedBlock]
) -> dict[int, AllocatedBlock]:
    """What was there when the recording began: given back without being asked for, or never asked
    for and there in the end.
    """
    before: dict[int, AllocatedBlock] = {}
    seen: set[int] = set()
    for asked, _, address, size, _ in _asked(events):
        if not asked and address not in seen:
            before[address] = AllocatedBlock(size, None, BEFORE)
        seen.add(address)
    return before | {address: block for address, block in left.items() if address not in seen}


def _peak(events: list[dict[str, Any]], before: dict[int, AllocatedBlock]) -> tuple[int, int]:
    """The most bytes that were in use, and the event after which they were."""
    sizes = {address: block.bytes for address, block in before.items()}
    now = sum(sizes.values())
    most, at = now, BEFORE
    for asked, place, address, size, _ in _asked(events):
        now -= sizes.pop(address, 0)
        if asked:
            sizes[address] = size
            now += size
            if now > most:
                most, at = now, place
    return most, at


def _there(
    events: list[dict[str, Any]], before: dict[int, AllocatedBlock], at: int
) -> dict[int, AllocatedBlock]:
    """What was in use after an event."""
    there = dict(before)
    for asked, place, address, size, frames in _asked(events[: at + 1]):
        there.pop(address, None)
        if asked:
            there[address] = AllocatedBlock(size, frames, place)
    return there


Key = tuple[int, Phase, bool, tuple[str, ...]]


def _groups(
    there: dict[int, AllocatedBlock], left: dict[int, AllocatedBlock]
) -> tuple[tuple[TensorGroup, ...], int]:
    """Blocks that are alike, those with most bytes first, and the bytes of what is left out."""
    places: dict[int, tuple[Phase, tuple[str, ...]]] = {}
    counts: Counter[Key] = Counter()
    for address, block in there.items():
        phase: Phase = "before"
        stack: tuple[str, ...] = ()
        if block.event != BEFORE:
            known = id(block.frames)
            if known not in places:
                places[known] = place_of(block.frames)
            phase, stack = places[known]
        kept = address in left and left[address].bytes == block.bytes
        counts[block.bytes, phase, kept, stack] += 1
    ordered = sorted(counts.items(), key=lambda each: (-each[0][0] * each[1], each[0]))
    groups = tuple(
        TensorGroup(bytes=nbytes, count=count, phase=phase, kept=kept, stack=stack)
        for (nbytes, phase, kept, stack), count in ordered[:MAX_GROUPS]
    )
    return groups, sum(key[0] * count for key, count in ordered[MAX_GROUPS:])


def _wrapped(events: list[dict[str, Any]], left: dict[int, AllocatedBlock]) -> bool:
    """Whether something was recorded when it was asked for, and that event is no longer there."""
    asked = {address for is_asked, _, address, _, _ in _asked(events) if is_asked}
    return any(block.frames and address not in asked for address, block in left.items())


def _segments(segments: Iterable[dict[str, Any]]) -> tuple[SegmentGroup, ...]:
    """Segments that are alike, those with most bytes first."""
    counts: Counter[tuple[int, Literal["small", "large"], bool]] = Counter()
    used: dict[tuple[int, Literal["small", "large"], bool], int] = defaultdict(int)
    for each in segments:
        kind: Literal["small", "large"] = (
            "small" if text(each, "segment_type") == "small" else "large"
        )
        key = number(each, "total_size"), kind, each.get("is_expandable") is True
        counts[key] += 1
        used[key] += number(each, "allocated_size")
    ordered = sorted(counts, key=lambda key: (-key[0] * counts[key], key))
    return tuple(
        SegmentGroup(
            bytes=key[0],
            count=counts[key],
            allocated_bytes=used[key],
            kind=key[1],
            expandable=key[2],
        )
        for key in ordered[:MAX_GROUPS]
    )

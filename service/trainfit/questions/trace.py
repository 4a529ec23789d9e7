"""The requests of one pipeline rank, replayed, as they are sent: from moment to moment, or as a
memory snapshot that PyTorch's own viewer opens.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from trainfit.estimator.allocator import History, SegmentSnapshot, Settings, TraceEntry
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.memo import Memo
from trainfit.estimator.needs import needs
from trainfit.estimator.reserved import room_of, ways
from trainfit.estimator.trace.followed import (
    Followed,
    Names,
    PartName,
    TensorsAtPeak,
    TracedMoment,
    follow,
    stretches,
    tensors_of,
)
from trainfit.estimator.trace.recorder import Trace
from trainfit.questions.dimensions import Find, from_package
from trainfit.questions.estimate import plan_of
from trainfit.questions.ledger import check_rank
from trainfit.resolve.findings import Findings
from trainfit.specs.ledger import TraceRequest

NOT_TRACED = (
    "the order in which this job asks the allocator for memory is not known; docs/allocator.md "
    "says of which jobs it is"
)


@dataclass(frozen=True, slots=True)
class SegmentAtPeak:
    """Memory of the card in one piece: what of it tensors were given, and what is free but serves
    only what fits.
    """

    bytes: int
    allocated_bytes: int
    stream: str


@dataclass(frozen=True, slots=True)
class TracePeak:
    """What is held at the request that makes the most allocated, in tensors and in segments, most
    first. What is reserved is what was requested, what rounding adds, what is free in segments that
    are used in part, and segments that nobody uses.
    """

    step: PartName
    moment: str
    allocated_bytes: int
    reserved_bytes: int
    requested_bytes: int
    rounding_bytes: int
    split_bytes: int
    unused_bytes: int
    tensors: list[TensorsAtPeak]
    segments: list[SegmentAtPeak]


@dataclass(frozen=True, slots=True)
class RankTrace:
    """A pipeline rank from the loading of its model to the end of a later step, as PyTorch's
    allocator serves it. `requests` is how often it is asked, `cache_retries` how often it gives its
    whole cache back for want of room (num_alloc_retries). Where steps do not go on by that, a card
    with room for all is taken.
    """

    pp_rank: int
    expandable_segments: bool
    requests: int
    reserved_bytes: int
    cache_retries: int
    peak: TracePeak
    moments: list[TracedMoment]


class RecordedTrace(NamedTuple):
    """The requests of a rank, the settings of its allocator, and the room on its card where it has
    to release its cache for want of it.
    """

    pp_rank: int
    trace: Trace
    settings: Settings
    room_bytes: int | None


def rank_trace(request: TraceRequest, find: Find = from_package) -> RankTrace:
    """A rank from moment to moment. Errors are those of `plan_of`, and RefusedError for a rank that
    the layout does not have or whose requests are not known.
    """
    rank, trace, settings, room = recorded(request, find)
    followed = follow(trace, settings, room)
    return RankTrace(
        pp_rank=rank,
        expandable_segments=settings.expandable_segments,
        requests=sum(map(len, trace.steps)),
        reserved_bytes=followed.reserved_bytes,
        cache_retries=followed.retries,
        peak=_peak(followed, Names(trace)),
        moments=followed.moments,
    )


def memory_snapshot(request: TraceRequest, find: Find = from_package) -> bytes:
    """The snapshot as `torch.cuda.memory._dump_snapshot` writes it: a pickle of dictionaries,
    lists, text and numbers, which pytorch.org/memory_viz draws. Errors are those of `rank_trace`.
    """
    rank, trace, settings, room = recorded(request, find)
    document = _snapshot(trace, settings, room)
    document["trainfit"] = {"pp_rank": rank, "predicted": True}
    return pickle.dumps(document, protocol=4)


def recorded(request: TraceRequest, find: Find) -> RecordedTrace:
    """What is replayed of a job: the rank that is asked for, or the one that needs most, or the one
    of those alike that asks for most.
    """
    plan, memo = plan_of(request, find), Memo()
    check_rank(request.pp_rank, plan)
    findings, rank = Findings(), request.pp_rank
    needed = needs(plan, memo)
    if rank is None:
        rank = needed.binding.pp_rank
    found = [each for each in framework_of(plan).traces(plan, memo) if rank in each.ranks]
    if not found:
        findings.add("/framework", "not_traced", NOT_TRACED)
    findings.refuse()
    alike = found[0]
    trace = alike.trace(alike.shares[-1])
    releases = needed.stages[rank].cache_releases != "none"
    room = room_of(plan) if releases else None
    return RecordedTrace(alike.ranks[0], trace, ways(plan)[0][0], room)


def _peak(followed: Followed, names: Names) -> TracePeak:
    at, made_of, segments = followed.peak, followed.fragmentation, followed.segments
    return TracePeak(
        step=at.step,
        moment=at.moment,
        allocated_bytes=at.allocated_bytes,
        reserved_bytes=sum(each.size for each in segments),
        requested_bytes=made_of.requested_bytes,
        rounding_bytes=made_of.rounding_bytes,
        split_bytes=made_of.split_bytes,
        unused_bytes=made_of.unused_bytes,
        tensors=tensors_of(segments, names),
        segments=sorted(map(_segment, segments), key=lambda each: -each.bytes),
    )


def _segment(segment: SegmentSnapshot) -> SegmentAtPeak:
    used = sum(block.size for block in segment.blocks if block.tensor is not None)
    return SegmentAtPeak(segment.size, used, str(segment.stream))


class _Drawing:
    """A memory snapshot as it grows. Frames that are alike are one object, written once."""

    def __init__(self, trace: Trace) -> None:
        self._names = Names(trace)
        self._frames: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        self._streams: dict[Hashable, int] = {0: 0}
        self.entries: list[dict[str, Any]] = []

    def tell(self, entry: TraceEntry, moment: str) -> None:
        self.entries.append(
            {
                "action": entry.action,
                "addr": entry.address,
                "size": entry.size,
                "stream": self.stream(entry.stream),
                "time_us": len(self.entries),
                "frames": self.frames(moment, entry.tensor),
            }
        )

    def stream(self, name: Hashable) -> int:
        return self._streams.setdefault(name, len(self._streams))

    def frames(self, moment: str, tensor: Hashable) -> list[dict[str, Any]]:
        """The tensor above the moment, in the place of a stack."""
        lines = (moment,) if tensor is None else (self._names(tensor), moment)
        if lines not in self._frames:
            self._frames[lines] = [
                {"filename": "trainfit", "line": 0, "name": each} for each in lines
            ]
        return self._frames[lines]

    def segment(self, segment: SegmentSnapshot) -> dict[str, Any]:
        used = [block for block in segment.blocks if block.tensor is not None]
        active = [block for block in segment.blocks if block.state != "inactive"]
        return {
            "device": 0,
            "address": segment.address,
            "total_size": segment.size,
            "allocated_size": sum(block.size for block in used),
            "active_size": sum(block.size for block in active),
            "requested_size": sum(block.requested_bytes for block in active),
            "stream": self.stream(segment.stream),
            "segment_type": "small" if segment.small else "large",
            "segment_pool_id": (0, 0),
            "is_expandable": segment.expandable,
            "frames": [],
            "blocks": [
                {
                    "address": block.address,
                    "size": block.size,
                    "requested_size": block.requested_bytes,
                    "state": block.state,
                    "frames": [] if block.tensor is None else self.frames("", block.tensor),
                }
                for block in segment.blocks
            ],
        }


def _snapshot(trace: Trace, settings: Settings, room: int | None) -> dict[str, Any]:
    history, drawing = History(settings, room), _Drawing(trace)
    for part in trace.steps:
        for moment, start, stop in stretches(part):
            for request in part[start:stop]:
                for entry in history.ask(request):
                    drawing.tell(entry, moment)
    return {
        "segments": [drawing.segment(each) for each in history.allocator.segments()],
        "device_traces": [drawing.entries],
        "allocator_settings": {"expandable_segments": settings.expandable_segments},
    }

"""What the figures of a run say by themselves: room that is left, and what goes wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from trainfit.decisions.quantities import gib
from trainfit.decisions.reconcile.comparison import (
    ComparedFigure,
    errors,
    is_between_steps,
    is_later,
    stage_of,
)
from trainfit.estimator.results import Estimate
from trainfit.specs.artifacts import Counter, Event
from trainfit.specs.reconcile import Figure
from trainfit.specs.snapshot import SnapshotSummary

FindingId = Literal[
    "headroom",
    "out_of_memory",
    "growth",
    "fragmentation",
    "cache_releases",
    "held_for_streams",
    "outside_torch",
    "rank_imbalance",
]
STEPS_OF_GROWTH = 3
"""A tensor that is kept by every step shows from the third on: the second still makes states."""
SHARE = 0.02
"""Of what a run took, what is worth a word: twice what a peak strays between equal ranks."""

ALLOCATED_PEAK: Counter = "allocated_bytes.all.peak"
FRAGMENTED = 0.1
"""What is reserved above the peak of what is allocated, more than in runs with fixed shapes."""


@dataclass(frozen=True, slots=True)
class RunFinding:
    """Something that the figures say, with its bytes, and what to do about it."""

    id: FindingId
    message: str
    bytes: int | None = None
    rank: int | None = None


class Counted(NamedTuple):
    """How often something has happened on a rank."""

    rank: int | None
    event: Event
    times: int


def findings(
    figures: Sequence[Figure],
    found: Sequence[ComparedFigure],
    counted: Iterable[Counted],
    estimate: Estimate,
    capacity_bytes: int | None,
) -> list[RunFinding]:
    """All that is found, the gravest first."""
    series, times = _series(figures), _most_times(counted)
    return [
        *_full(figures, estimate, capacity_bytes),
        *_full_of_which_nothing_is_told(figures, times),
        *_releases(times),
        *_growth(series),
        *_in_pieces(figures),
        *_fragmentation(series),
        *_held(series),
        *_outside(found),
        *_outside_when_full(figures, estimate),
        *_imbalance(figures, estimate),
        *_headroom(figures, found, estimate, capacity_bytes),
    ]


def recorded_findings(summary: SnapshotSummary) -> Iterator[RunFinding]:
    """What a recording of the allocator says by itself."""
    if summary.out_of_memory:
        message = f"no room was found {summary.out_of_memory} times while it was recorded"
        yield RunFinding("out_of_memory", message, rank=summary.rank)
    if summary.released_segments and not summary.expandable_segments:
        message = (
            f"{summary.released_segments} segments were given back to the card while it was "
            "recorded: the cache was emptied, or there was no room beside it"
        )
        yield RunFinding("cache_releases", message, rank=summary.rank)
    idle = summary.reserved_bytes - summary.peak_bytes
    if idle > FRAGMENTED * summary.peak_bytes:
        large = max(
            (each.bytes * each.count - each.allocated_bytes for each in summary.segments), default=0
        )
        message = (
            f"{gib(idle)} GiB are reserved above the peak of what is allocated, {gib(large)} of it "
            "in segments of one size; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True gives most "
            "of it back"
        )
        yield RunFinding("fragmentation", message, idle, summary.rank)


Series = Mapping[tuple[int | None, Counter], Sequence[Figure]]


def _series(figures: Sequence[Figure]) -> Series:
    """Figures of later steps by rank and counter, in the order of their steps."""
    series: dict[tuple[int | None, Counter], list[Figure]] = defaultdict(list)
    for each in figures:
        if is_later(each) and each.format != "out of memory":
            series[each.rank, each.counter].append(each)
    return series


class HeldWhenFull(NamedTuple):
    """Bytes that were asked for when there was no room, that PyTorch had allocated, and reserved
    where the error tells it: a cache that is not PyTorch's own it does not; of the process, all
    that were in use on the card, and all that it has, where the error says it.
    """

    asked: int
    allocated: int
    reserved: int | None
    process_used: int | None
    card_used: int | None
    capacity: int | None

    @property
    def idle(self) -> int:
        """Bytes that were reserved and lay between tensors, as far as the error tells them."""
        return 0 if self.reserved is None else self.reserved - self.allocated


def _full_memories(figures: Iterable[Figure]) -> Iterator[tuple[int | None, HeldWhenFull]]:
    """What errors of a full memory say, each with its rank."""
    for rank, by_counter in errors(figures):
        bytes_of = {counter: each.bytes for counter, each in by_counter.items()}
        allocated = bytes_of.get("allocated_bytes.all.current", 0)
        reserved = bytes_of.get("reserved_bytes.all.current")
        if reserved is None and "reserved_unallocated" in bytes_of:
            reserved = allocated + bytes_of["reserved_unallocated"]
        capacity, free = bytes_of.get("device_capacity"), bytes_of.get("device_free")
        used = bytes_of.get("process_used")
        card = None if capacity is None or free is None else capacity - free
        asked = bytes_of.get("tried_to_allocate", 0)
        yield rank, HeldWhenFull(asked, allocated, reserved, used, card, capacity)


def _full(
    figures: Iterable[Figure], estimate: Estimate, capacity_bytes: int | None
) -> Iterator[RunFinding]:
    """One for each rank: with what its process had, or PyTorch where that is all that is known, and
    whether that was to be expected.
    """
    most: dict[int | None, tuple[int, str, int]] = {}
    for rank, full in _full_memories(figures):
        capacity = full.capacity or capacity_bytes or 0
        if full.process_used is not None:
            held = full.process_used, "in use", capacity
        elif full.reserved is not None:
            held = full.reserved, "reserved by PyTorch", capacity
        else:
            held = full.allocated, "allocated by PyTorch", capacity
        most[rank] = max(most.get(rank, held), held)
    for rank, (size, what, capacity) in most.items():
        if size:
            message = f"the card was full with {gib(size)} GiB {what}"
            message += _as_expected(stage_of(rank, estimate)[0], estimate, capacity)
            yield RunFinding("out_of_memory", message, size, rank)


def _as_expected(pp_rank: int | None, estimate: Estimate, capacity: int) -> str:
    """What a stage was to need of a card with so much, which was full; the one that needs most
    where it is not known which.
    """
    number = estimate.binding.pp_rank if pp_rank is None else pp_rank
    needs = estimate.stages[number].device_bytes
    expected, most = gib(needs.expected), gib(needs.high)
    if not capacity or needs.high <= capacity:
        return f"; {expected} are expected of this job, {most} at most"
    advice = "fit-check says what would make it fit"
    beyond = "more than" if needs.expected > capacity else f"and up to {most} of"
    return f"; {expected} are expected of this job, {beyond} its {gib(capacity)}: {advice}"


MostTimes = Mapping[tuple[int | None, Event], int]


def _most_times(counted: Iterable[Counted]) -> MostTimes:
    """Of counts that go on, the last: by rank and what is counted."""
    most: dict[tuple[int | None, Event], int] = {}
    for rank, event, times in counted:
        most[rank, event] = max(most.get((rank, event), 0), times)
    return most


def _full_of_which_nothing_is_told(
    figures: Iterable[Figure], most: MostTimes
) -> Iterator[RunFinding]:
    """No room was found, and no error says what there was."""
    told = {rank for rank, _ in errors(figures)}
    for (rank, event), times in most.items():
        if not times or rank in told:
            continue
        if event == "driver_ooms":
            message = (
                "the driver had no room for what asks it and not PyTorch's allocator: a context, "
                "a kernel, cuBLAS or NCCL; the cache of a process does not go for these"
            )
            yield RunFinding("out_of_memory", message, rank=rank)
        elif event == "num_ooms":
            yield RunFinding("out_of_memory", f"no room was found {times} times", rank=rank)


def _releases(most: MostTimes) -> Iterator[RunFinding]:
    for (rank, event), times in most.items():
        if times and event == "num_alloc_retries":
            message = (
                f"the allocator released its cache {times} times to find room: the run is at the "
                "edge of the card, and every release stops it"
            )
            yield RunFinding("cache_releases", message, rank=rank)


def _growth(series: Series) -> Iterator[RunFinding]:
    """What is allocated between steps, or reserved, that becomes more at every one of them."""
    for (rank, counter), measured in series.items():
        steps = [
            each
            for each in measured
            if (each.step is None or each.step >= STEPS_OF_GROWTH)
            and (counter != "allocated_bytes.all.current" or is_between_steps(each))
        ]
        if len(steps) < STEPS_OF_GROWTH:
            continue
        sizes = [each.bytes for each in steps]
        rises = all(before <= after for before, after in pairwise(sizes))
        grown = sizes[-1] - sizes[0]
        if not rises or grown <= SHARE * sizes[0]:
            continue
        if counter == "allocated_bytes.all.current":
            message = (
                f"{gib(grown)} GiB more are allocated between steps than {len(steps)} figures "
                "before: tensors are kept from step to step, a loss with its graph perhaps"
            )
            yield RunFinding("growth", message, grown, rank)
        elif counter == "reserved_bytes.all.peak" and (rank, ALLOCATED_PEAK) not in series:
            if all(each.peak_window == "log" for each in steps):
                message = (
                    f"{gib(grown)} GiB more are reserved than {len(steps)} lines before: samples "
                    "become longer, tensors are kept from step to step, or the cache fragments"
                )
                yield RunFinding("growth", message, grown, rank)
        elif counter == "reserved_bytes.all.current" and not _peaks_grow(series, rank):
            message = f"{gib(grown)} GiB more are reserved though no peak grows: it fragments"
            yield RunFinding("fragmentation", message, grown, rank)


def _peaks_grow(series: Series, rank: int | None) -> bool:
    sizes = [each.bytes for each in series.get((rank, ALLOCATED_PEAK), ())]
    return bool(sizes) and sizes[-1] > sizes[0]


def _in_pieces(figures: Iterable[Figure]) -> Iterator[RunFinding]:
    """What was cached when a memory was full. Blocks that could be given back had been, so that
    this lies between tensors.
    """
    most: dict[int | None, HeldWhenFull] = {}
    for rank, full in _full_memories(figures):
        before = most.get(rank)
        if before is None or full.idle > before.idle:
            most[rank] = full
    for rank, full in most.items():
        if full.idle > FRAGMENTED * full.allocated:
            message = (
                f"{gib(full.idle)} GiB were reserved and not allocated, in pieces of which none "
                f"had room for {gib(full.asked)}; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
                "gives most of it back"
            )
            yield RunFinding("fragmentation", message, full.idle, rank)


def _fragmentation(series: Series) -> Iterator[RunFinding]:
    """What is reserved above the peak of what is allocated."""
    for (rank, counter), measured in series.items():
        peaks = series.get((rank, "allocated_bytes.all.peak"))
        if counter != "reserved_bytes.all.peak" or not peaks:
            continue
        reserved, peak = max(each.bytes for each in measured), max(each.bytes for each in peaks)
        if reserved - peak > FRAGMENTED * peak:
            message = (
                f"{gib(reserved - peak)} GiB are reserved above the peak of what is allocated; "
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True gives most of it back"
            )
            yield RunFinding("fragmentation", message, reserved - peak, rank)


def _held(series: Series) -> Iterator[RunFinding]:
    """Freed, but not for reuse: another stream may still read it."""
    for (rank, counter), measured in series.items():
        peaks = series.get((rank, "allocated_bytes.all.peak"))
        if counter != "active_bytes.all.peak" or not peaks:
            continue
        held = max(each.bytes for each in measured) - max(each.bytes for each in peaks)
        if held > SHARE * peaks[-1].bytes:
            message = f"{gib(held)} GiB were freed and waited for other streams (record_stream)"
            yield RunFinding("held_for_streams", message, held, rank)


def _outside(found: Sequence[ComparedFigure]) -> Iterator[RunFinding]:
    reserved = {each.rank: each for each in found if each.quantity == "reserved"}
    for each in found:
        within = reserved.get(each.rank)
        if each.quantity != "device" or within is None or each.at_least or within.predicted is None:
            continue
        assert each.predicted is not None
        outside = each.measured_bytes - within.measured_bytes
        most = each.predicted.high - within.predicted.high
        if outside > most:
            message = (
                f"{gib(outside)} GiB of the card lie outside PyTorch, where {gib(most)} are the "
                "most that context and communicators take: another process, or CUDA graphs"
            )
            yield RunFinding("outside_torch", message, outside - most, each.rank)


def _outside_when_full(figures: Sequence[Figure], estimate: Estimate) -> Iterator[RunFinding]:
    """More outside PyTorch than context and communicators take, on a card that was full."""
    worst: dict[int | None, RunFinding] = {}
    for rank, full in _full_memories(figures):
        in_use = full.process_used if full.card_used is None else full.card_used
        if in_use is None or not full.reserved:
            continue
        outside = in_use - full.reserved
        most = _outside_bytes(stage_of(rank, estimate)[0], estimate)
        before = worst.get(rank)
        if outside <= most or (before and (before.bytes or 0) >= outside - most):
            continue
        others = "another process, or CUDA graphs"
        if full.process_used is not None and in_use > full.process_used:
            others = f"other processes have {gib(in_use - full.process_used)} GiB"
        message = (
            f"{gib(outside)} GiB of the card lay outside PyTorch when it was full, where "
            f"{gib(most)} are the most that context and communicators take: {others}"
        )
        worst[rank] = RunFinding("outside_torch", message, outside - most, rank)
    yield from worst.values()


def _imbalance(figures: Sequence[Figure], estimate: Estimate) -> Iterator[RunFinding]:
    """Ranks of one stage that do not peak alike."""
    peaks: dict[int, dict[int, int]] = defaultdict(dict)
    for each in figures:
        if each.counter == "allocated_bytes.all.peak" and each.rank is not None and is_later(each):
            stage, why = stage_of(each.rank, estimate)
            if why is None and stage is not None:
                of_rank = peaks[stage]
                of_rank[each.rank] = max(of_rank.get(each.rank, 0), each.bytes)
    for stage, of_rank in peaks.items():
        if len(of_rank) < 2:
            continue
        most = max(of_rank, key=of_rank.__getitem__)
        apart = of_rank[most] - min(of_rank.values())
        if apart > SHARE * of_rank[most]:
            message = (
                f"ranks of pipeline rank {stage} peak {gib(apart)} GiB apart, rank {most} highest: "
                "routing or lengths are not balanced"
            )
            yield RunFinding("rank_imbalance", message, apart, most)


def _headroom(
    figures: Sequence[Figure],
    found: Sequence[ComparedFigure],
    estimate: Estimate,
    capacity_bytes: int | None,
) -> Iterator[RunFinding]:
    """What stays free of the fullest card. Where a rank says what it reserved and not what the card
    holds, that and the most that lies outside PyTorch.
    """
    capacities = [each.bytes for each in figures if each.counter == "device_capacity"]
    capacity = max(capacities, default=capacity_bytes or 0)
    device = {each.rank: each for each in found if each.quantity == "device"}
    reserved = {each.rank: each for each in found if each.quantity == "reserved"}
    used = [(each.measured_bytes, rank) for rank, each in device.items()]
    used += [
        (each.measured_bytes + _outside_bytes(each.pp_rank, estimate), rank)
        for rank, each in reserved.items()
        if rank not in device
    ]
    if not capacity or not used or any(each.at_least for each in found):
        return
    most, rank = max(used, key=lambda each: each[0])
    left = capacity - most
    if left > 0.15 * capacity:
        beside = ""
        if rank not in device:
            outside = gib(most - reserved[rank].measured_bytes)
            beside = f" beside {outside} that context and communicators take at most"
        message = (
            f"{gib(left)} GiB of {gib(capacity)} stay free{beside}: a larger micro-batch, longer "
            "sequences or less recomputation may fit; POST /v1/fit-check with limits tells which"
        )
        yield RunFinding("headroom", message, left, rank)


def _outside_bytes(pp_rank: int | None, estimate: Estimate) -> int:
    """The most that lies outside PyTorch on a card of a stage; of all where that is not known."""
    stages = [each for each in estimate.stages if each.pp_rank == pp_rank]
    return max(
        each.device_bytes.high - each.reserved_bytes.high for each in stages or estimate.stages
    )

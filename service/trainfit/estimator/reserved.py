"""What PyTorch's caching allocator reserves for the requests of a rank, replayed.

The model is loaded, a first step makes the optimizer's states among what its activations left
behind, and a later one finds the cache as every one after it does. Between free blocks of one size
releases of PyTorch decide differently, and which one runs no job says: what those up to 2.11
reserve, with which all published runs were made, is expected, and the bounds have them all.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from trainfit.estimator.allocator import (
    Allocate,
    CachingAllocator,
    Device,
    OutOfMemoryError,
    Request,
    Settings,
    replay,
)
from trainfit.estimator.allocator.settings import POWER_INTERVALS
from trainfit.estimator.frameworks.framework import Alike
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.overhead import context, grows_segments
from trainfit.estimator.results import CacheReleases, Interval, TooMuchError
from trainfit.estimator.trace.recorder import Trace, TracePart
from trainfit.resolve.plan import LengthSpread, Plan

MOST_SHARES = 4
"""Shares of states whose requests are replayed."""
MOST_REQUESTS = 30_000
"""Requests after which no other share is replayed, and other releases of one rank alone."""
MOST_OF_RANKS = 90_000
"""Requests after which no other rank is."""
LOWEST_ADDRESS_FIRST = (2, 11)
"""The last release that takes the block at the lowest address, wherever CUDA has placed it."""


class Reservation(NamedTuple):
    """What a rank reserves at most: of the releases of PyTorch the least, that of the usual, and
    the most; and how often its cache has to go for it.
    """

    low: int
    expected: int
    high: int
    releases: CacheReleases = "none"

    def beyond(self, allocated: Interval) -> Interval:
        """What is reserved above what is allocated, beside either bound of that: if there is more
        to allocate, there is more to reserve.
        """
        beside = (self.low, self.expected, self.high)
        return Interval(*[max(0, each - allocated.expected) for each in beside])


class Replayed(NamedTuple):
    """What was found of a pipeline rank by replaying the requests of `rank`, which asks for as much
    or more.
    """

    rank: int
    reservation: Reservation

    def beyond(self, allocated: Sequence[Interval], rank: int) -> Interval:
        """What is reserved above what is allocated: nobody knows the least for a rank that asks
        for less.
        """
        found = self.reservation.beyond(allocated[self.rank])
        return found if rank == self.rank else Interval(0, found.expected, found.high)

    def reserved(self, rank: int) -> Interval | None:
        """What is reserved in all; None for a rank that asks for less."""
        low, expected, high, _ = self.reservation
        return Interval(low, expected, high) if rank == self.rank else None


def reservations(
    groups: Sequence[Alike],
    plan: Plan,
    allocated: Sequence[Interval],
    outside: Interval,
    limit_bytes: int | None = None,
) -> dict[int, Replayed]:
    """What pipeline ranks reserve, those first that allocate most: of the shares of states that are
    asked the most is expected. No more are asked than what takes so many requests; where that is
    reached, releases differ as for the rank that allocates most. Where a GPU has room
    for what is expected but not for all that may be reserved, beside the most that may be `outside`
    PyTorch and allocated, that keeps to the GPU if the cache need not go at every step: of
    blocks whose sizes do not recur nobody knows that. Raises TooMuchError where a rank that was
    asked is seen to need more than `limit_bytes` of its GPU.
    """
    groups = sorted(groups, key=lambda group: -allocated[group.ranks[0]].expected)
    usual, *others = ways(plan)
    every = [settings for way in (usual, *others) for settings in way]
    # Addresses that grow serve every size.
    caching = [settings for settings in every if not settings.expandable_segments]
    strayed = _strayed(groups[0], caching)
    found: dict[int, list[ReplayedTrace]] = {}
    asked = 0
    for turn in range(MOST_SHARES):
        most_requests = MOST_REQUESTS if turn else MOST_OF_RANKS
        for number, group in enumerate(groups):
            shares = _spread(group.shares)
            if turn < len(shares) and asked < most_requests:
                recorded = group.trace(shares[turn])
                asked += sum(map(len, recorded.steps))
                before = found.setdefault(number, [])
                before.append(_known(recorded, before) or _ask(recorded, usual[0]))
                beside = outside.high + _stray(allocated[group.ranks[0]]) * bool(strayed)
                if limit_bytes is not None and before[-1].after_later + beside > limit_bytes:
                    raise TooMuchError
    result: dict[int, Replayed] = {}
    below = above = 0
    for number, each in found.items():
        asked_most = max(each, key=attrgetter("after_later"))
        first, *_ = ranks = groups[number].ranks
        stray = _stray(allocated[first])
        if not number or asked < MOST_REQUESTS:
            most = _any_way(asked_most, plan, (usual, *others), stray, alone=len(each) == 1)
            below, above = most.expected - most.low, most.high - most.expected
        else:
            most = _reservation(asked_most, plan, usual[:1], stray, alone=False)
            low, high = most.expected - below, max(most.high, most.expected + above)
            most = most._replace(low=low, high=high)
        low = min(most.low, *[one.after_later for one in each])
        room = plan.gpu.memory_bytes - outside.high - stray if plan.gpu.memory_bytes else None
        varied = None
        if plan.batch.spread is not None and caching:
            share = _spread(groups[number].shares)[each.index(asked_most)]
            varied = _varied(groups[number], share, plan.batch.spread)
        if varied is not None:
            most = _of_any_length(most, varied, caching[0], room)
        high = max(most.high, asked_most.recorded.peak_bytes + strayed)
        # Lengths that differ let go of the cache when a new longest comes, and seldom after that.
        settled: tuple[CacheReleases, ...] = ("none",) if varied is None else ("none", "once")
        settling = most.releases in settled and not strayed and asked_most.recorded.graphs is None
        if room is not None and settling:
            alike = RequestedRun(asked_most.recorded.steps, asked_most.recorded.recurring)
            if (
                asked_most.recorded.peak_bytes <= room < high
                and _settles(alike, every, room)
                and (varied is None or _settles(varied.worst, caching[:1], room))
            ):
                high = max(room, most.expected - stray)
        result.update(dict.fromkeys(ranks, Replayed(first, most._replace(low=low, high=high))))
    return result


def _stray(allocated: Interval) -> int:
    """The most that is allocated beyond what is expected: of a GPU to whose room steps keep, that
    is left for it.
    """
    return allocated.high - allocated.expected


def _strayed(group: Alike, caching: Sequence[Settings]) -> int:
    """The most that is reserved beyond what is allocated where experts take whatever is routed to
    them: blocks of sizes that do not recur.
    """
    if group.uneven is None or not caching:
        return 0
    asked = _asked(caching[0], *group.uneven(group.shares[-1], 0).steps)
    return asked.peak_reserved_bytes - asked.peak_allocated_bytes


def _spread(shares: Sequence[int]) -> Sequence[int]:
    """The last and the first, which have the largest parameters of a model, and some between."""
    last = len(shares) - 1
    places = [last, 0, *[last * part // (MOST_SHARES - 1) for part in range(1, MOST_SHARES - 1)]]
    return [shares[place] for place in dict.fromkeys(places)]


class ReplayedTrace(NamedTuple):
    """A trace, and what the usual release reserves at most up to its first step and in all."""

    recorded: Trace
    after_first: int
    after_later: int


def _known(recorded: Trace, before: Sequence[ReplayedTrace]) -> ReplayedTrace | None:
    """What was asked before of another share, where that asked for the same: those that lie within
    one parameter do.
    """
    return next((each for each in before if each.recorded.steps == recorded.steps), None)


def _ask(recorded: Trace, settings: Settings) -> ReplayedTrace:
    allocator = _asked(settings, recorded.loaded, recorded.first)
    after_first = allocator.peak_reserved_bytes
    for part in recorded.steps[2:]:
        replay(allocator, part)
    return ReplayedTrace(recorded, after_first, allocator.peak_reserved_bytes)


def _any_way(
    asked: ReplayedTrace,
    plan: Plan,
    kinds: Sequence[Sequence[Settings]],
    stray: int,
    *,
    alone: bool,
) -> Reservation:
    """What the requests reserve as the allocator usually is, within bounds of all ways."""
    usual, *others = kinds
    found = _reservation(asked, plan, usual, stray, alone=alone)
    for each in others:
        other = _reservation(_ask(asked.recorded, each[0]), plan, each, stray, alone=alone)
        low, high = min(found.low, other.low), max(found.high, other.high)
        found = found._replace(low=low, high=high)
    return found


def _reservation(
    asked: ReplayedTrace, plan: Plan, releases: Sequence[Settings], stray: int, *, alone: bool
) -> Reservation:
    """What the requests reserve: as much as the allocator would cache, and on a GPU that has no
    room for that, what is left of it when it was given back and steps go on.

    Other releases are asked where a later step reserves more than the first, which chooses among
    the blocks of a whole step. How many places of its largest tensors were given to states, and are
    needed anew, turns on a few blocks besides: where one was, and these requests `alone` were asked
    and not those of other shares, the most that is reserved has what they need where as much more
    is allocated as may `stray`, up to one place more.
    """
    recorded, after_first, expected = asked
    usual, *others = releases
    reserved, more = [expected], 0
    if others and (expected > after_first or recorded.graphs is not None):
        reserved += [_asked(each, *recorded.steps).peak_reserved_bytes for each in others]
        requests = [each for each in recorded.later if isinstance(each, Allocate)]
        largest = max(requests, key=attrgetter("nbytes"))
        if alone and expected - after_first >= largest.nbytes:
            crowded = _crowded(recorded, usual, stray, largest)
            more = min(largest.nbytes, max(0, crowded - expected))
    most = max(reserved) + more
    room = room_of(plan)
    if room is not None and recorded.peak_bytes <= room < expected:
        try:
            run = RequestedRun(recorded.steps, recorded.recurring)
            steady = [_steady(run, each, room) for each in (usual, *others)]
        except OutOfMemoryError:
            pass  # Not even without a cache there is room.
        else:
            (expected, released), *_ = steady
            low = min(nbytes for nbytes, _ in steady)
            return Reservation(low, expected, most, released)
    return Reservation(min(reserved), expected, most)


def _crowded(recorded: Trace, settings: Settings, nbytes: int, largest: Allocate) -> int:
    """What the requests reserve where, once there are states, something else keeps so many bytes of
    what is left beside the largest tensors.
    """
    _, _, *later = recorded.steps
    allocator = _asked(settings, recorded.loaded, recorded.first)
    allocator.withhold(nbytes, largest)
    for requests in later:
        replay(allocator, requests)
    return allocator.peak_reserved_bytes


class RequestedRun(NamedTuple):
    """Steps that are asked for in turn, and what goes on and on behind them."""

    steps: Sequence[Sequence[Request]]
    recurring: Sequence[Request]


class VariedRuns(NamedTuple):
    """Runs over micro-batches of lengths that differ, as they usually do and at worst."""

    usual: RequestedRun
    worst: RequestedRun


def _varied(group: Alike, share: int, spread: LengthSpread) -> VariedRuns | None:
    """What a rank asks for where lengths differ."""
    if group.long is None:
        return None
    orders = spread.usual(), spread.worst()
    traces = {tokens: group.long(share, tokens) for order in orders for tokens in order}
    behind = [traces[min(traces)].later, traces[spread.longest].later]

    def run(lengths: Sequence[int]) -> RequestedRun:
        first = traces[lengths[0]]
        later = [traces[tokens].later for tokens in lengths]
        return RequestedRun((first.loaded, first.first, *later), TracePart.joined(*behind))

    return VariedRuns(*map(run, orders))


def _of_any_length(
    most: Reservation, varied: VariedRuns, settings: Settings, room: int | None
) -> Reservation:
    """What is reserved where lengths differ. A GPU with room for the longest that has none for the
    cache of all gives that back when a new longest comes.
    """
    expected = _asked(settings, *varied.usual.steps).peak_reserved_bytes
    high = max(most.high, expected, _asked(settings, *varied.worst.steps).peak_reserved_bytes)
    releases = most.releases
    if room is not None and most.expected <= room < expected:
        try:
            allocator, releases = _kept_to(varied.usual, settings, room)
        except OutOfMemoryError:
            pass  # As with one length, where not even without a cache there is room.
        else:
            expected = allocator.peak_reserved_bytes
    return Reservation(most.low, max(most.expected, expected), high, releases)


def _settles(run: RequestedRun, releases: Sequence[Settings], room: int) -> bool:
    """Whether a GPU with so much room holds the requests once the cache has gone, and need not let
    go of it at every step.
    """
    try:
        return all(_kept_to(run, each, room)[1] == "once" for each in releases)
    except OutOfMemoryError:
        return False


def _steady(run: RequestedRun, settings: Settings, room: int) -> tuple[int, CacheReleases]:
    """The most that a step reserves on a GPU with so much room once it has had to release, and
    whether it has to again.
    """
    allocator, releases = _kept_to(run, settings, room, afresh=True)
    return allocator.peak_reserved_bytes, releases


def _kept_to(
    run: RequestedRun, settings: Settings, room: int, *, afresh: bool = False
) -> tuple[CachingAllocator, CacheReleases]:
    """The allocator of a GPU with so much room behind a run whose steps had to release, and whether
    what goes on has to again. Peaks are those of all, or `afresh` of what goes on.
    """
    allocator = _asked(settings, *run.steps, room=room)
    before = allocator.retries
    if afresh:
        allocator.reset_peaks()
    replay(allocator, run.recurring)
    return allocator, "every_step" if allocator.retries > before else "once"


def _asked(
    settings: Settings, *steps: Sequence[Request], room: int | None = None
) -> CachingAllocator:
    """The allocator of a GPU with so much room, None for any, that was asked for all of this."""
    allocator = CachingAllocator(settings, Device(room))
    for requests in steps:
        replay(allocator, requests)
    return allocator


def room_of(plan: Plan) -> int | None:
    """What PyTorch has of the GPU that was named."""
    bare = context(plan, framework_of(plan).kernel_loading(plan))
    return plan.gpu.memory_bytes - bare.expected if plan.gpu.memory_bytes else None


def ways(plan: Plan) -> Sequence[Sequence[Settings]]:
    """How the allocator may be set up, the usual way first; of each, how releases choose between
    blocks, the usual first. One range of addresses that grows leaves them nothing to choose. On
    AMD's GPUs it does not grow before 2.11, nor before ROCm 7 (c10/cuda/CUDACachingAllocator.cpp).
    """
    grows, asked = grows_segments(plan), _asked_for(plan)
    growing = (replace(asked, expandable_segments=True),)
    caching = (replace(asked, release=LOWEST_ADDRESS_FIRST), asked)
    if grows is False:
        return [caching]
    if plan.gpu.vendor == "amd":
        return [caching, growing]
    return [growing] if grows else [growing, caching]


def _asked_for(plan: Plan) -> Settings:
    """What a job sets of the allocator whether segments grow or not."""
    framework = plan.framework
    divisions = framework.roundup_power2_divisions
    beyond = POWER_INTERVALS - len(divisions)
    return Settings(
        max_split_bytes=framework.max_split_size_bytes,
        roundup_power2_divisions=(*divisions, *(divisions[-1:] or (0,)) * beyond),
    )

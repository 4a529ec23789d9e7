"""What runs of a cluster took beyond their tensors, for jobs that are to run there.

Nothing is fitted to tensors: they follow from the job. What lies outside PyTorch does not, and how
much more is reserved than allocated follows from it only where requests are replayed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from trainfit.decisions.reconcile.comparison import (
    ComparedFigure,
    Quantity,
    comparable,
    comparisons,
    errors,
    stage_of,
)
from trainfit.estimator.overhead import SLACK_PERCENT, SLACK_PERCENT_EXPANDABLE
from trainfit.estimator.results import Estimate, Interval, Stage
from trainfit.specs.calibration import (
    Bounds,
    Cluster,
    Outside,
    Paces,
    Ratios,
    Replays,
    Trained,
)
from trainfit.specs.reconcile import Figure
from trainfit.steptime.calibration import Carried


class Range(NamedTuple):
    """Bytes that something has at least and at most; `inferred` where a part of what they were
    counted from was not measured but replayed.
    """

    low: int
    high: int
    inferred: bool = False


class CalibratedLayout(NamedTuple):
    """What of a layout takes room outside PyTorch; and what is trained, which decides by how much
    a replay is off.
    """

    communicators: int
    exchanges: bool
    trains: Trained


@dataclass(frozen=True, slots=True)
class SeenRank:
    """What a rank of a run tells: the bytes outside PyTorch, at least and at most, and what it
    reserved above what it allocated, relative to that; or, where that is replayed, what it reserved
    relative to the replay. Null is what it does not tell. `outside_inferred` says that what it
    reserved was not measured but replayed.
    """

    rank: int | None
    pp_rank: int
    outside_low_bytes: int | None
    outside_high_bytes: int | None
    outside_inferred: bool
    slack_ratio: float | None
    replay_ratio: float | None


class Pace(NamedTuple):
    """How long a step of a run took relative to what was expected of it, and of what it is. Half
    the width of the interval was `spread`.
    """

    of: Carried
    ratio: float
    spread: float


class MeasuredRun(NamedTuple):
    """A run whose layout is known, what published ones show of it, and what its ranks tell; its
    pace where it has one and one was expected.
    """

    layout: CalibratedLayout
    published: Interval
    ranks: Sequence[SeenRank]
    pace: Pace | None = None


def seen(figures: Sequence[Figure], estimate: Estimate) -> list[SeenRank]:
    """What the ranks of a run tell of what is not fixed by its tensors."""
    compared: dict[int | None, dict[Quantity, ComparedFigure]] = defaultdict(dict)
    for each in comparisons(comparable(figures), estimate):
        if each.pp_rank is not None and each.why is None and not each.at_least:
            compared[each.rank][each.quantity] = each
    ranks: dict[int | None, SeenRank] = {}
    for rank, of_rank in compared.items():
        number = next(iter(of_rank.values())).pp_rank
        assert number is not None
        stage = estimate.stages[number]
        outside = _outside(of_rank, stage)
        told = _slack(of_rank, stage), _over_replayed(of_rank, stage)
        ranks[rank] = _rank(rank, number, outside, *told)
    for rank, outside in _in_errors(figures):
        found, _ = stage_of(rank, estimate)
        if found is not None:
            before = ranks.get(rank)
            told = (before.slack_ratio, before.replay_ratio) if before else (None, None)
            ranks[rank] = _rank(rank, found, outside, *told)
    return [
        each
        for each in ranks.values()
        if (each.outside_high_bytes, each.slack_ratio, each.replay_ratio) != (None, None, None)
    ]


def _rank(
    rank: int | None,
    pp_rank: int,
    outside: Range | None,
    slack: float | None,
    over_replayed: float | None,
) -> SeenRank:
    if outside is None:
        return SeenRank(rank, pp_rank, None, None, False, slack, over_replayed)
    return SeenRank(rank, pp_rank, *outside, slack, over_replayed)


def _outside(compared: Mapping[Quantity, ComparedFigure], stage: Stage) -> Range | None:
    """What the card holds beside what is reserved, as exact as both were printed, or as the second
    is known where it was replayed.
    """
    device, reserved = compared.get("device"), compared.get("reserved")
    if device is None:
        return None
    held = _replayed(compared, stage) if reserved is None else _as_printed(reserved)
    if held is None:
        return None
    card = _as_printed(device)
    low, high = card.low - held.high, card.high - held.low
    return Range(max(0, low), high, held.inferred) if high > 0 else None


def _as_printed(figure: ComparedFigure) -> Range:
    exact = figure.resolution_bytes
    return Range(figure.measured_bytes - exact, figure.measured_bytes + exact)


def _replayed(compared: Mapping[Quantity, ComparedFigure], stage: Stage) -> Range | None:
    """What is reserved where only what is allocated was reported, and lies within its bounds: these
    were the requests that are expected, and the rest follows from them. The cache does not follow a
    peak that is a little lower: runs with kernels that no job names reserved what was expected.
    """
    allocated = compared.get("allocated")
    if allocated is None or allocated.verdict != "within":
        return None
    if stage.reserved_basis != "replayed" or stage.cache_releases != "none":
        return None
    tensors, reserved = stage.allocated_bytes, stage.reserved_bytes
    return Range(
        tensors.expected + reserved.low - tensors.low,
        tensors.expected + reserved.high - tensors.high,
        inferred=True,
    )


def _in_errors(figures: Iterable[Figure]) -> Iterator[tuple[int | None, Range]]:
    """What an error of a full memory tells of all the process had, at one moment."""
    for rank, figures_of in errors(figures):
        try:
            process = figures_of["process_used"]
            inner = figures_of["allocated_bytes.all.current"], figures_of["reserved_unallocated"]
        except KeyError:
            continue
        outside = process.bytes - sum(each.bytes for each in inner)
        exact = sum(each.resolution_bytes for each in (process, *inner))
        if outside + exact > 0:
            yield rank, Range(max(0, outside - exact), outside + exact)


def _slack(compared: Mapping[Quantity, ComparedFigure], stage: Stage) -> float | None:
    """What is reserved above what is allocated, where that does not follow from the requests."""
    reserved, allocated = compared.get("reserved"), compared.get("allocated")
    if reserved is None or allocated is None or stage.reserved_basis == "replayed":
        return None
    return round(max(0.0, reserved.measured_bytes / allocated.measured_bytes - 1), 4)


def _over_replayed(compared: Mapping[Quantity, ComparedFigure], stage: Stage) -> float | None:
    """What is reserved relative to what is expected of its requests, where they are replayed and
    that lies within its bounds: else it was another job that ran.
    """
    reserved = compared.get("reserved")
    if reserved is None or reserved.verdict != "within":
        return None
    if stage.reserved_basis != "replayed" or stage.cache_releases != "none":
        return None
    return round(reserved.measured_bytes / stage.reserved_bytes.expected, 4)


def outside_of(runs: Sequence[MeasuredRun]) -> tuple[Outside, ...]:
    """What lies outside PyTorch, by layouts that take it alike; apart from those that say it, runs
    of which it was inferred, by what they trained.
    """
    alike: dict[tuple[int, bool, Trained | None], list[tuple[Range, Interval]]] = defaultdict(list)
    for run in runs:
        if (range_of_run := _of_run(run)) is not None:
            communicators, exchanges, trains = run.layout
            key = communicators, exchanges, trains if range_of_run.inferred else None
            alike[key].append((range_of_run, run.published))
    return tuple(
        [
            Outside(
                communicators=communicators,
                exchanges=exchanges,
                replayed=replayed,
                bytes=_fitted([range_of_run for range_of_run, _ in same], same[0][1]),
                runs=len(same),
            )
            for (communicators, exchanges, replayed), same in sorted(
                alike.items(), key=lambda each: (*each[0][:2], each[0][2] or "")
            )
        ]
    )


def _of_run(run: MeasuredRun) -> Range | None:
    """All that the ranks of a run have shown."""
    lows = [each.outside_low_bytes for each in run.ranks if each.outside_low_bytes is not None]
    highs = [each.outside_high_bytes for each in run.ranks if each.outside_high_bytes is not None]
    inferred = any(each.outside_inferred for each in run.ranks)
    return Range(min(lows), max(highs), inferred) if lows else None


def _fitted(ranges: Sequence[Range], published: Interval) -> Bounds:
    """The least range that agrees with every run, or that all lie in where each was inferred and
    has an error of its own; wider by what makes its ends unbiased for runs that are spread evenly,
    (greatest - least) / (n - 1) to either side, and no wider than what published runs and these
    have shown. It is not narrower than that for one run.
    """
    ranges = [_agreed(each, published) if each.inferred else each for each in ranges]
    most, least = max(each.low for each in ranges), min(each.high for each in ranges)
    low, high = min(most, least), max(most, least)
    middle, spread = (low + high) // 2, max(0, most - least)
    if any(each.inferred for each in ranges):
        low, high = min(each.low for each in ranges), max(each.high for each in ranges)
        middles = [(each.low + each.high) // 2 for each in ranges]
        spread = max(middles) - min(middles)
    lowest, highest = min(published.low, low), max(published.high, high)
    if len(ranges) > 1:
        wider = spread // (len(ranges) - 1)
        lowest, highest = max(lowest, low - wider), min(highest, high + wider)
    return Bounds(low=lowest, expected=middle, high=highest)


def _agreed(inferred: Range, published: Interval) -> Range:
    """The part of what a run leaves open that published ones have shown; its nearest end where they
    have shown none of it. How far a replay may be off is in the bounds of its job already.
    """
    low = max(inferred.low, min(published.low, inferred.high))
    return Range(low, max(low, min(inferred.high, published.high)), inferred.inferred)


def slack_of(runs: Iterable[MeasuredRun], cluster: Cluster) -> Ratios | None:
    """What is reserved above what is allocated. One layout says little of another: the runs of one
    node with eight B200 reserved 2.0 to 7.5 % more. So what is expected follows what was seen, and
    the bounds only give way to it.
    """
    ratios = [
        each.slack_ratio for run in runs for each in run.ranks if each.slack_ratio is not None
    ]
    if not ratios:
        return None
    percent = SLACK_PERCENT if cluster.allocator == "default" else SLACK_PERCENT_EXPANDABLE
    return Ratios(
        low=min(percent.low / 100, *ratios),
        expected=round(median(ratios), 4),
        high=max(percent.high / 100, *ratios),
    )


def replays_of(runs: Iterable[MeasuredRun]) -> tuple[Replays, ...]:
    """What was reserved relative to its replay, by what was trained."""
    alike: dict[Trained, list[list[float]]] = defaultdict(list)
    for run in runs:
        ratios = [each.replay_ratio for each in run.ranks if each.replay_ratio is not None]
        if ratios:
            alike[run.layout.trains].append(ratios)
    found = []
    for trains, of_runs in sorted(alike.items()):
        ratios = [ratio for each in of_runs for ratio in each]
        spread = Ratios(low=min(ratios), expected=round(median(ratios), 4), high=max(ratios))
        found.append(Replays(trains=trains, reserved_ratio=spread, runs=len(of_runs)))
    return tuple(found)


OWN_RUNS = (0.23, 0.22, 0.2)
"""Half the width of the interval by one, two and three or more own runs, relative to what is
expected, or that without them where it is less: within it lay 85 % of the published runs of models
of which so many others report, and no other run of their software. docs/step-time.md."""


def paces_of(runs: Iterable[MeasuredRun]) -> tuple[Paces, ...]:
    """How long steps took, by what they carry over to: the middle of the runs of each, and around
    it what published runs leave open and these have shown.
    """
    alike: dict[Carried, list[Pace]] = defaultdict(list)
    for run in runs:
        if run.pace is not None:
            alike[run.pace.of].append(run.pace)
    found = []
    for of, paces in alike.items():
        ratios = [each.ratio for each in paces]
        middle, own = median(ratios), OWN_RUNS[min(len(ratios), len(OWN_RUNS)) - 1]
        width = min(own, *(each.spread for each in paces))
        bounds = Ratios(
            low=round(min(middle * (1 - width), *ratios), 4),
            expected=round(middle, 4),
            high=round(max(middle * (1 + width), *ratios), 4),
        )
        found.append(Paces(**of._asdict(), seconds_ratio=bounds, runs=len(ratios)))
    return tuple(found)

"""Which layout: what a search tries, in portions, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, NamedTuple

from trainfit.decisions.search.fastest import SLOWEST, Rivals, fastest
from trainfit.decisions.search.ground import Ground, TimeUpError
from trainfit.decisions.search.memory import largest_micro_batch, longest_sequence, most_headroom
from trainfit.decisions.search.results import FittingJob, Tally
from trainfit.decisions.search.scouting import Prospect, scout
from trainfit.decisions.search.space import LayoutSizes, worlds
from trainfit.specs.framework import FrameworkName
from trainfit.specs.search import BY_TIME, Objective, SearchRequest


class Most(NamedTuple):
    """Layouts that a search looks at: in all, and in one portion, which a worker has to do in its
    time.
    """

    layouts: int
    at_once: int


MOST: Mapping[FrameworkName, Most] = {
    "megatron": Most(12_000, 3_000),
    "nanotron": Most(12_000, 3_000),
    "torchtitan": Most(2_000, 500),
    "transformers": Most(2_000, 500),
}
"""Each takes some tenths of a millisecond, or ten times as long where schedules of PyTorch are run
through.
"""
MAX_PORTIONS = 256


class Portion(NamedTuple):
    """A part of a search that is done at once: which layouts of so many GPUs can fit on a ground,
    which of those are best, or which of all are fastest.
    """

    what: Literal["scout", "settle", "time"]
    ground: int
    num_gpus: int


@dataclass(slots=True)
class SearchProgress:
    """How far a search is; it can be handed from one process to another between its portions. One
    that is cut goes no further: its time was up within a portion.
    """

    portions: list[Portion]
    done: int = 0
    tally: Tally = field(default_factory=Tally)
    prospects: dict[tuple[int, int], list[Prospect]] = field(default_factory=dict)
    too_large: dict[int, set[LayoutSizes]] = field(default_factory=dict)
    options: list[FittingJob] = field(default_factory=list)
    is_cut: bool = False

    @property
    def is_over(self) -> bool:
        return self.is_cut or self.done == len(self.portions)


Settle = Callable[[Ground, Iterable[Prospect], int, Tally], list[FittingJob]]
SETTLES: Mapping[Objective, Settle] = {
    "fewest_gpus": most_headroom,
    "most_headroom": most_headroom,
    "longest_sequence": longest_sequence,
    "largest_micro_batch": largest_micro_batch,
}


def begin(request: SearchRequest, grounds: Sequence[Ground]) -> SearchProgress:
    """A search of which nothing is done. Numbers of GPUs are tried ascending where the fewest are
    sought; else descending, since what does not fit on many fits on no fewer. Each is settled
    before the next, so that a search that is cut short has found something.
    """
    ascends = request.objective == "fewest_gpus"
    sizes = worlds(grounds[0].job, request.max_gpus, finely=ascends)
    by_time = request.objective in BY_TIME and all(each.is_timed for each in grounds)
    whats: Sequence[Literal["scout", "settle", "time"]]
    whats = ("time",) if by_time else ("scout", "settle")
    return SearchProgress(
        [
            Portion(what, ground, size)
            for size in (sizes if ascends else reversed(sizes))
            for ground in range(len(grounds))
            for what in whats
        ]
    )


def advance(request: SearchRequest, grounds: Sequence[Ground], standing: SearchProgress) -> None:
    """Do the next portion, or what of it there is time for."""
    try:
        _do_next(request, grounds, standing)
    except TimeUpError:
        standing.is_cut = True


def _do_next(request: SearchRequest, grounds: Sequence[Ground], standing: SearchProgress) -> None:
    what, number, num_gpus = standing.portions[standing.done]
    ground, place, tally = grounds[number], (number, num_gpus), standing.tally
    ascends = request.objective == "fewest_gpus"
    most = MOST[ground.job.framework.name]
    left = min(most.at_once, most.layouts - tally.layouts)
    too_large = set[LayoutSizes]() if ascends else standing.too_large.setdefault(number, set())
    match what:
        case "scout":
            standing.prospects[place] = list(scout(ground, num_gpus, left, too_large, tally))
        case "settle":
            settle = SETTLES[request.objective]
            standing.options += settle(ground, standing.prospects.pop(place), request.best, tally)
        case "time":
            rivals = _rivals(request, ground, standing, num_gpus)
            for option in fastest(ground, num_gpus, rivals, left, too_large, tally):
                standing.options.append(option)
    standing.done += 1
    if ascends and standing.options:
        standing.portions = [
            each
            for number, each in enumerate(standing.portions)
            if number < standing.done or each.num_gpus == num_gpus
        ]


def _rivals(
    request: SearchRequest, ground: Ground, standing: SearchProgress, num_gpus: int
) -> Rivals:
    """What was found so far, and what pace may still be among the best, or worth naming."""
    floor, options = request.min_tokens_per_second, standing.options
    slowest = inf if floor is None else 1 / floor
    paces = sorted(each.pace for each in options)
    if request.objective == "fastest" and paces:
        slowest = min(slowest, SLOWEST * paces[0])
    elif request.objective == "cheapest" and len(options) >= request.best:
        price = ground.price_per_gpu_hour or inf
        costs = sorted(each.cost for each in options)
        slowest = min(slowest, costs[request.best - 1] * 3600 / price / num_gpus)
        return Rivals((), request.best, slowest)
    return Rivals(paces, request.best, slowest)


def ranked(
    request: SearchRequest, options: Iterable[FittingJob], most: int | None = None
) -> list[FittingJob]:
    """As many as are asked for. The best first; where two are alike, the faster one,
    the one that leaves more free, and then in the order in which they were tried.
    """

    def order(each: FittingJob) -> tuple[float, float, int]:
        return value(each, request), each.pace, -each.headroom_bytes

    return sorted(options, key=order)[: most or request.best]


def value(option: FittingJob, request: SearchRequest) -> float:
    """What the objective asks for: the less the better."""
    match request.objective:
        case "fastest":
            return option.pace
        case "cheapest":
            return option.cost
        case "fewest_gpus":
            return option.num_gpus
        case "most_headroom":
            return -option.headroom_bytes
        case "longest_sequence":
            return -option.job.training.seq_length
        case "largest_micro_batch":
            return -option.job.training.micro_batch_size


def search(request: SearchRequest, grounds: Sequence[Ground]) -> SearchProgress:
    """A search from its beginning to its end."""
    standing = begin(request, grounds)
    while not standing.is_over:
        advance(request, grounds, standing)
    return standing

"""Changes that help a job that does not fit, each verified by an estimate of the changed job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice
from operator import attrgetter

from pydantic import ValidationError

from trainfit.decisions.candidates.candidate import Candidate, Price, together
from trainfit.decisions.candidates.single import candidates
from trainfit.decisions.patch import apply, patch
from trainfit.decisions.room import Room
from trainfit.decisions.verdict import Verdict
from trainfit.estimator.results import ComponentName, Estimate
from trainfit.resolve.findings import Change, RefusedError
from trainfit.specs.job import Job
from trainfit.steptime import Seconds, StepTime, Untimed

OFFERED = 12
"""The most suggestions in an answer."""
PAIRS_TRIED = 20
PAIRS_WANTED = 4
"""Pairs are priced until so many of them fit."""

NOT_OF_TIME = (Price.GPUS, Price.TASK)
"""What is not given up in time."""

RANK: dict[Verdict, int] = {"fits": 0, "unknown": 1, "tight": 1, "does_not_fit": 2}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A JSON Patch on the job, what it saves on the stage that binds, and what it costs.

    `saves_bytes` is by how much the expected device bytes of the stage that needs most fall.
    `step_seconds` are those of the changed job; `gpu_time_ratio` is how long a token then keeps the
    GPUs, all together, relative to the job as it is. Both are null where no time is known.
    """

    patch: list[Change]
    saves_bytes: int
    cost: str
    verdict: Verdict
    step_seconds: Seconds | None = None
    gpu_time_ratio: float | None = None


Time = Callable[[Job], StepTime | Untimed]


class Timing:
    """How long changed jobs take, beside the job as it is."""

    def __init__(self, job: Job, time: Time | None) -> None:
        self._time = time
        self._before = self._of(job)

    def of(self, job: Job) -> tuple[Seconds, float] | tuple[None, None]:
        """The seconds of its step, and of a token on each GPU relative to those before."""
        after = self._of(job)
        if after is None or self._before is None:
            return None, None
        rate, before = after.tokens_per_second_per_gpu, self._before.tokens_per_second_per_gpu
        return after.seconds, round(before / rate, 4)

    def _of(self, job: Job) -> StepTime | None:
        found = self._time(job) if self._time is not None else None
        return found if isinstance(found, StepTime) else None


@dataclass(frozen=True, slots=True)
class Verified:
    """A candidate that is consistent and saves something; `needs` are bytes by component."""

    candidate: Candidate
    suggestion: Suggestion
    needs: dict[ComponentName, int]

    @property
    def order(self) -> tuple[int, Price, float, Price, int]:
        """By what it makes of the verdict, then by the time that it costs, but for what is given up
        in other ways; alike in that, by its price, then by what it saves.
        """
        suggestion, price = self.suggestion, self.candidate.price
        ratio, rank = suggestion.gpu_time_ratio, RANK[suggestion.verdict]
        if ratio is None:
            return rank, price, 0.0, price, -suggestion.saves_bytes
        apart = price if price in NOT_OF_TIME else Price.NOTHING
        return rank, apart, round(ratio, 2), price, -suggestion.saves_bytes


def suggestions(
    job: Job,
    estimate: Estimate,
    price: Callable[[Job], Estimate],
    scout: Callable[[Job], Estimate],
    room: Room,
    time: Time | None = None,
) -> list[Suggestion]:
    """What helps, best first: single changes, and pairs of them where no single one is enough. They
    are found among what `scout` prices, by wider bounds; where these are not enough, `price`
    decides. `time` tells how long each takes.
    """
    timing = Timing(job, time)
    try:
        before = estimate if scout is price else scout(job)
    except RefusedError:  # There is no time for any.
        return []
    scouted = partial(_verified, job, before, scout, room, timing)
    found = list(scouted(candidates(job, estimate.parallelism.num_gpus)))
    best = _best_verdict(estimate)
    if all(each.suggestion.verdict != best for each in found):
        proposed = islice(_pairs(found, before, room), PAIRS_TRIED)
        reached = (each for each in scouted(proposed) if each.suggestion.verdict == best)
        found += islice(reached, PAIRS_WANTED)
    found = sorted(found, key=_order)[:OFFERED]
    if scout is not price:
        fitting = [each for each in found if each.suggestion.verdict == best]
        others = [each.candidate for each in found if each.suggestion.verdict != best]
        decided = _verified(job, estimate, price, room, timing, others)
        found = sorted([*fitting, *decided], key=_order)
    return [each.suggestion for each in found]


def _verified(
    job: Job,
    before: Estimate,
    price: Callable[[Job], Estimate],
    room: Room,
    timing: Timing,
    proposed: Iterable[Candidate],
) -> Iterator[Verified]:
    for candidate in proposed:
        changes = patch(job, candidate.values)
        try:
            instead = apply(job, changes)
            changed = price(instead)
        except (RefusedError, ValidationError):
            continue
        saved = _needed(before) - _needed(changed)
        if saved > 0:
            verdict, seconds = room.verdict(changed), timing.of(instead)
            suggestion = Suggestion(list(changes), saved, candidate.cost, verdict, *seconds)
            yield Verified(candidate, suggestion, _needs(changed))


_order = attrgetter("order")


def _needed(estimate: Estimate) -> int:
    return estimate.binding.device_bytes.expected


def _best_verdict(estimate: Estimate) -> Verdict:
    """What a change can achieve: nothing more than unknown where something is not counted."""
    return "unknown" if estimate.warnings else "fits"


def _needs(estimate: Estimate) -> dict[ComponentName, int]:
    """What the stage that binds needs, by component."""
    stage = estimate.stages[estimate.binding.pp_rank]
    return {component.name: component.bytes for component in stage.components}


def _pairs(found: list[Verified], estimate: Estimate, room: Room) -> Iterator[Candidate]:
    """Pairs that go together: first those that are likely to fit, the cheapest first.

    Of each component the second change is taken to leave the same share as it does by itself.
    """
    before = _needs(estimate)
    bounds = estimate.binding.device_bytes
    likely = (room.usable_bytes - room.headroom_bytes) * bounds.expected / bounds.high

    def order(pair: tuple[Verified, Verified]) -> tuple[bool, Price, float]:
        a, b = pair
        needed = sum(a.needs[name] * b.needs[name] / size for name, size in before.items() if size)
        return needed > likely, max(a.candidate.price, b.candidate.price), needed

    for a, b in sorted(combinations(found, 2), key=order):
        both = together(a.candidate, b.candidate)
        if both is not None:
            yield both

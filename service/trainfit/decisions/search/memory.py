"""The best by what memory alone decides: most headroom, longest sequence, largest micro-batch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count

from trainfit.decisions.limits import LONGEST_SEQUENCE, last_that_holds, micro_batch_sizes
from trainfit.decisions.search.ground import Ground
from trainfit.decisions.search.results import FittingJob, Tally
from trainfit.decisions.search.scouting import Prospect
from trainfit.decisions.search.space import stepped
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.layout import sequence_multiple
from trainfit.resolve.registry import conventions_of
from trainfit.specs.job import Job


def most_headroom(
    ground: Ground, prospects: Iterable[Prospect], wanted: int, tally: Tally
) -> list[FittingJob]:
    """The `wanted` layouts that leave most free, each on the rung that keeps least. One that is
    priced waits in line until no other can leave more.
    """
    order = count()
    line: list[tuple[int, int, Prospect | FittingJob]] = [
        (each.least.high, next(order), each) for each in prospects
    ]
    heapify(line)
    found: list[FittingJob] = []
    while line and len(found) < wanted:
        _, _, first = heappop(line)
        if isinstance(first, FittingJob):
            found.append(first)
            continue
        option = _leanest(ground, first.jobs(ground, first.micro_batches[0]), tally)
        if option is None:
            tally.fell("does_not_fit")
        else:
            needed = ground.room.usable_bytes - option.headroom_bytes
            heappush(line, (needed, next(order), option))
    tally.fell("behind", count=len(line))
    return found


def longest_sequence(
    ground: Ground, prospects: Iterable[Prospect], wanted: int, tally: Tally
) -> list[FittingJob]:
    """The `wanted` layouts that take the longest sequences."""

    def lengths(_: Prospect, job: Job) -> Sequence[int]:
        multiple = sequence_multiple(job.parallelism, conventions_of(job))
        return range(multiple, LONGEST_SEQUENCE + 1, multiple)

    return _largest(ground, prospects, wanted, tally, "seq_length", lengths)


def largest_micro_batch(
    ground: Ground, prospects: Iterable[Prospect], wanted: int, tally: Tally
) -> list[FittingJob]:
    """The `wanted` layouts that take the largest micro-batches."""

    def sizes(prospect: Prospect, job: Job) -> Sequence[int]:
        return micro_batch_sizes(
            job.training.global_batch_size, prospect.sizes.dp(prospect.num_gpus)
        )

    return _largest(ground, prospects, wanted, tally, "micro_batch_size", sizes)


def _largest(
    ground: Ground,
    prospects: Iterable[Prospect],
    wanted: int,
    tally: Tally,
    name: str,
    values_of: Callable[[Prospect, Job], Sequence[int]],
) -> list[FittingJob]:
    """The `wanted` layouts with the largest value of a field of training that fits, and of each the
    lowest rung on which it does. One that does not take more than those found is left at that.
    """
    reached: list[tuple[int, Prospect]] = []
    for prospect in sorted(prospects, key=lambda each: each.least.high):
        rungs = prospect.jobs(ground, prospect.micro_batches[0])

        def fits(value: int, rungs: Sequence[Job] = rungs) -> bool:
            return (
                _leanest(ground, [stepped(job, {name: value}) for job in rungs], tally) is not None
            )

        values = values_of(prospect, rungs[0])
        threshold = reached[wanted - 1][0] if len(reached) >= wanted else 0
        start = bisect_right(values, threshold)
        if start == len(values) or (threshold and not fits(values[start])):
            tally.fell("behind")
            continue
        usual = bisect_right(values, getattr(rungs[0].training, name)) - 1
        value = last_that_holds(fits, values, max(start, usual))
        if value is not None:
            reached.append((value, prospect))
            reached.sort(key=lambda each: -each[0])
            tally.fell("behind", count=len(reached[wanted:]))
            del reached[wanted:]
        else:
            tally.fell("does_not_fit")
    return [
        option
        for value, prospect in reached
        if (
            option := _first(
                ground,
                [
                    stepped(job, {name: value})
                    for job in prospect.jobs(ground, prospect.micro_batches[0])
                ],
                tally,
            )
        )
    ]


def _leanest(ground: Ground, rungs: Sequence[Job], tally: Tally) -> FittingJob | None:
    """The highest rung that is consistent, where it fits."""
    for job in reversed(rungs):
        try:
            return ground.option(job, tally)
        except RefusedError:
            continue
    return None


def _first(ground: Ground, rungs: Sequence[Job], tally: Tally) -> FittingJob | None:
    """The lowest rung that fits."""
    for job in rungs:
        try:
            if (option := ground.option(job, tally)) is not None:
                return option
        except RefusedError:
            continue
    return None

"""The fastest layouts of a number of GPUs that fit.

One line, by seconds for a token. What waits in it has the least that it can take; what comes first
is looked at more closely, and waits anew if that is longer. So no more is priced than could be
first, and what fits is found in the order of its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import NamedTuple

from trainfit.decisions.search.ground import Ground
from trainfit.decisions.search.results import FittingJob, Tally
from trainfit.decisions.search.scouting import Prospect, laid_out, prospect
from trainfit.decisions.search.space import LayoutSizes, micro_batches, stepped
from trainfit.decisions.search.splits import SAYS_SPLIT, leaves_split_open
from trainfit.estimator.results import Interval
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job

SLOWEST = 3
"""Of fewer GPUs no layout is named that takes longer than so many times the fastest of all."""
TIE = 1.05
"""Times that are no further apart are a tie: by so much the predicted best of a group of published
runs is slower than the measured one, at the 90th percentile.
"""


class Seen(IntEnum):
    """How closely something in the line was looked at, each closer than the one before."""

    LARGEST_BATCH = 0
    """Its least time is that of the largest micro-batch."""
    OWN_BATCH = 1
    """That of its own, where nothing is recomputed."""
    TIMED = 2
    """Its time is known, whether its tensors fit is not."""
    FITTING = 3
    """Its tensors fit, and on no lower rung."""


class SearchStep(NamedTuple):
    """A layout, a size of its micro-batch, and a rung of the ladder; its plan once it is timed."""

    sizes: LayoutSizes
    micro_batch: int
    seen: Seen = Seen.LARGEST_BATCH
    rung: int = 0
    plan: Plan | None = None

    def on(self, rung: int) -> SearchStep:
        """This step on another rung, which nobody has looked at."""
        return SearchStep(self.sizes, self.micro_batch, Seen.TIMED, rung)


class Rivals(NamedTuple):
    """What was found before, on other numbers of GPUs and cards: seconds for a token, ascending;
    how many are wanted in all; and how slow they may be.
    """

    paces: Sequence[float]
    wanted: int
    slowest: float

    def last(self, found: Sequence[FittingJob]) -> float:
        """What is slower is not among the wanted; of what ties with the first more may be named."""
        paces = sorted([*self.paces, *(each.pace for each in found)])
        return min(self.slowest, paces[self.wanted - 1] if len(paces) >= self.wanted else inf)


def fastest(
    ground: Ground,
    num_gpus: int,
    rivals: Rivals,
    most: int,
    too_large: set[LayoutSizes],
    tally: Tally,
) -> Iterator[FittingJob]:
    """Those layouts on so many GPUs that are among the fastest of all, the first of them in any
    case, and of those that tie with it such as leave more free; each on the lowest rung that fits.
    They are given as they are found, the fastest first.
    """
    line = _Line(ground, num_gpus, most, too_large, tally)
    found: list[FittingJob] = []
    last, longest, roomiest = rivals.last(found), _longest(found, rivals), 0
    while (first := line.next(longest)) is not None:
        pace, step = first
        counts = pace <= last or not found
        if step.seen < Seen.FITTING:
            line.look_closer(step, pace, roomiest=None if counts else roomiest)
            continue
        option = ground.option(line.job(step), tally)
        if option is None:
            line.climb(step)
        elif counts or option.headroom_bytes > roomiest:
            found.append(option)
            last, longest = rivals.last(found), _longest(found, rivals)
            roomiest = max(roomiest, option.headroom_bytes)
            yield option
    line.close()


def _longest(found: Sequence[FittingJob], rivals: Rivals) -> float:
    """Seconds for a token up to which something may be found that is named."""
    if not found:
        return rivals.slowest
    ties = TIE * found[0].pace if found[0].pace <= min(rivals.paces, default=inf) else 0.0
    return min(rivals.slowest, max(ties, rivals.last(found)))


class _Line:
    """What waits on a ground, by the least seconds for a token."""

    def __init__(
        self, ground: Ground, num_gpus: int, most: int, too_large: set[LayoutSizes], tally: Tally
    ) -> None:
        self._ground, self._num_gpus, self._too_large, self._tally = (
            ground,
            num_gpus,
            too_large,
            tally,
        )
        self._on = ground.on(num_gpus)
        schedule = self._on.parallelism.pipeline_schedule
        self._fills = schedule in (None, "1f1b", "interleaved", "gpipe")
        self._splits = leaves_split_open(self._on)
        self._order = count()
        self._prospects: dict[LayoutSizes, Prospect | None] = {}
        self._last_rung = 0
        self._waits = 1 + ground.jitter_ratio(num_gpus)
        self._waiting = [
            (least, next(self._order), step)
            for least, step in self._steps(laid_out(ground, num_gpus, most, tally))
        ]
        heapify(self._waiting)

    def next(self, longest: float) -> tuple[float, SearchStep] | None:
        """The first, None where it takes longer than so much or there is none."""
        if not self._waiting or self._waiting[0][0] > longest:
            return None
        least, _, step = heappop(self._waiting)
        return least, step

    def job(self, step: SearchStep) -> Job:
        changes = {"micro_batch_size": step.micro_batch, **self._ground.ladder[step.rung]}
        return stepped(step.sizes.of(self._on), changes)

    def look_closer(self, step: SearchStep, pace: float, *, roomiest: int | None) -> None:
        """Have it wait anew with a longer time, unless it cannot fit, or leave more free than so
        much where that is asked.
        """
        match step.seen:
            case Seen.LARGEST_BATCH:
                whole = _whole(self._ground, step.sizes, step.micro_batch)
                self._join(self._at_least(step, whole), step._replace(seen=Seen.OWN_BATCH))
            case Seen.OWN_BATCH:
                known = self._prospect(step.sizes)
                if known is None:
                    return
                if self._ground.leaves_more(known.least, roomiest):
                    self._join_timed(step.on(0))
            case _:
                self._look_whether_it_fits(step, pace, roomiest)

    def _look_whether_it_fits(self, step: SearchStep, pace: float, roomiest: int | None) -> None:
        """A step whose time is known, and that fits on no lower rung. What came before fitted on
        the rung to try: where the one below keeps too much, so do all before it.
        """
        rung = max(step.rung, self._last_rung)
        while rung > step.rung and self._can_fit(step.on(rung - 1)):
            rung -= 1
        if rung > step.rung:
            self._join_timed(step.on(rung))
            return
        least = self._least(step)
        if least is None or not self._ground.fits(least):
            self.climb(step)
            return
        self._last_rung = rung
        if self._ground.leaves_more(least, roomiest):
            self._join(pace, step._replace(seen=Seen.FITTING))
        else:
            self.climb(step)

    def climb(self, step: SearchStep) -> None:
        """Have what keeps too much wait on the next rung, if there is one."""
        if step.rung + 1 < len(self._ground.ladder):
            self._join_timed(step.on(step.rung + 1))

    def _join_timed(self, step: SearchStep) -> None:
        try:
            plan = self._ground.plan_of(self.job(step))
        except RefusedError as error:
            self._tally.fell("refused", error.findings[0].message)
            return
        time = self._ground.time(plan)
        assert time is not None
        self._join(1 / time.tokens_per_second, step._replace(plan=plan))

    def close(self) -> None:
        """Count what was not looked at."""
        waiting = {step.sizes for _, _, step in self._waiting} - self._prospects.keys()
        self._tally.fell("behind", count=len(waiting))

    def _join(self, least: float, step: SearchStep) -> None:
        heappush(self._waiting, (least, next(self._order), step))

    def _steps(self, sizes: Iterator[LayoutSizes]) -> Iterator[tuple[float, SearchStep]]:
        for each in sizes:
            counts = micro_batches(self._on, each.dp(self._num_gpus))
            whole = _whole(self._ground, each, counts[-1])
            for size in counts:
                step = SearchStep(each, size)
                yield self._at_least(step, whole), step

    def _prospect(self, sizes: LayoutSizes) -> Prospect | None:
        if sizes not in self._prospects:
            self._prospects[sizes] = prospect(
                self._ground, self._on, sizes, self._too_large, self._tally
            )
        return self._prospects[sizes]

    def _can_fit(self, step: SearchStep) -> bool:
        least = self._least(step)
        return least is not None and self._ground.fits(least)

    def _least(self, step: SearchStep) -> Interval | None:
        """What a step needs at least; None where it is refused."""
        try:
            return self._ground.least(step.plan or self._ground.plan_of(self.job(step)))
        except RefusedError:
            return None

    def _at_least(self, step: SearchStep, whole: float) -> float:
        """Seconds for a token that a layout takes at least: the slowest stage has no less than its
        share of the model for every micro-batch, and waits for the others once, between chunks, and
        all for the slowest.
        """
        training, sizes = self._on.training, step.sizes
        samples = step.micro_batch * sizes.dp(self._num_gpus)
        m = training.num_microbatches or (training.global_batch_size or 0) // samples
        share = whole * step.micro_batch / sizes.pp
        chunks = dict(sizes.others).get("vpp", 1) if self._splits else inf
        idle = share * (sizes.pp - 1) / chunks if self._fills else 0.0
        return self._waits * (m * share + idle) / (m * samples * training.seq_length)


def _whole(ground: Ground, sizes: LayoutSizes, micro_batch: int) -> float:
    """Seconds for which a sample keeps the ranks of one stage that held the whole model busy, in
    micro-batches of this size: in smaller ones no less. 0 where no such stage is consistent.
    """
    etp = dict(sizes.others).get("etp")
    return ground.memo(_busy_seconds, ground, sizes.tp, sizes.cp, sizes.ep, etp, micro_batch)


ONE_STAGE = {
    "num_gpus": None,
    "pp": 1,
    "vpp": None,
    "pipeline_schedule": None,
    **dict.fromkeys(SAYS_SPLIT[:4]),
    **dict.fromkeys(SAYS_SPLIT[4:], False),
}


def _busy_seconds(
    ground: Ground, tp: int, cp: int, ep: int, etp: int | None, micro_batch: int
) -> float:
    divided = {"tp": tp, "cp": cp, "ep": ep, "etp": etp}
    layout = ground.job.parallelism.model_copy(update={**ONE_STAGE, **divided})
    job = ground.job.model_copy(update={"parallelism": layout})
    step = {"micro_batch_size": micro_batch, "global_batch_size": None, "num_microbatches": 1}
    try:
        plan = ground.plan_of(stepped(job, step))
    except RefusedError:
        return 0.0
    time = ground.time(plan if plan.calibration is None else replace(plan, calibration=None))
    assert time is not None
    parts = time.parts
    busy = parts.compute_seconds + parts.host_seconds + parts.tensor_parallel_seconds
    busy += parts.context_parallel_seconds + parts.expert_parallel_seconds
    paces = plan.calibration.paces if plan.calibration is not None else ()
    # Own runs may have been faster than expected.
    return busy / micro_batch * min([1.0, *(each.seconds_ratio.expected for each in paces)])

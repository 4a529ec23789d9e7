"""What a search finds, and what became of the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Literal, NamedTuple

from trainfit.decisions.verdict import Verdict
from trainfit.estimator.results import Needs
from trainfit.specs.job import Job
from trainfit.steptime import StepTime

Why = Literal["refused", "does_not_fit", "unknown", "behind", "not_tried"]

EXPLANATIONS: dict[Why, str] = {
    "refused": "is inconsistent: sizes do not divide, or options contradict each other",
    "does_not_fit": "does not fit with its activations, whatever is recomputed or offloaded",
    "unknown": "fits as far as it is counted, but something that needs memory is not",
    "behind": "cannot be better than what was found",
    "not_tried": "was left out, since there are too many: give some of the sizes",
}


@dataclass(frozen=True, slots=True)
class Fell:
    """Layouts that fell for one reason; `example` says it of one of them."""

    why: Why
    message: str
    layouts: int
    example: str | None


@dataclass(frozen=True, slots=True)
class Tried:
    """How many layouts were looked at, how many of them fit, and why the others fell. `jobs` were
    estimated in full: layouts with a size of the micro-batch, and with what is recomputed.
    """

    layouts: int
    jobs: int
    fell: list[Fell]


MAX_WORK = 3_000_000
"""Work for full estimates in one search, in the units of `estimator.work`: some seconds."""


@dataclass(slots=True)
class Tally:
    """Counts what became of layouts, and the work that is left for full estimates."""

    layouts: int = 0
    jobs: int = 0
    work_left: int = MAX_WORK
    fallen: Counter[Why] = field(default_factory=Counter)
    examples: dict[Why, str] = field(default_factory=dict)

    def fell(self, why: Why, example: str | None = None, count: int = 1) -> None:
        self.fallen[why] += count
        if example is not None:
            self.examples.setdefault(why, example)

    def summary(self) -> Tried:
        fell = [
            Fell(why, message, self.fallen[why], self.examples.get(why))
            for why, message in EXPLANATIONS.items()
            if self.fallen[why]
        ]
        return Tried(self.layouts, self.jobs, fell)


class FittingJob(NamedTuple):
    """A job that fits, with what it needs. `headroom_bytes` stay free of what it may use of the
    card, by the high bound of the stage that needs most.
    """

    job: Job
    num_gpus: int
    gpu: str
    verdict: Verdict
    needs: Needs
    headroom_bytes: int
    time: StepTime | None
    price_per_gpu_hour: float | None

    @property
    def cost(self) -> float:
        """What is paid for a token; of what has no price, as if it were beyond any."""
        price = self.price_per_gpu_hour
        return inf if price is None else price / 3600 * self.num_gpus * self.pace

    @property
    def pace(self) -> float:
        """Seconds for a token; of what is not timed, as if it took for ever."""
        return inf if self.time is None else 1 / self.time.tokens_per_second


def pareto(options: Iterable[FittingJob]) -> list[FittingJob]:
    """The options than which no other is as fast, on as few GPUs, with as much headroom, and better
    in one of these; the fewest GPUs first, and the fastest of them.
    """
    front: list[FittingJob] = []
    for each in sorted(options, key=lambda each: (each.num_gpus, each.pace, -each.headroom_bytes)):
        if all(
            each.pace < other.pace or each.headroom_bytes > other.headroom_bytes for other in front
        ):
            front.append(each)
    return front

"""Where is searched: a job on a card, of which all is given but its layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from trainfit.catalog.speed import gpu_speeds
from trainfit.decisions.patch import apply, patch
from trainfit.decisions.room import Room, room_on
from trainfit.decisions.search.ladders import Rung, ladder
from trainfit.decisions.search.results import FittingJob, Tally
from trainfit.decisions.search.space import Axes, axes
from trainfit.decisions.verdict import Verdict
from trainfit.estimator.memo import Memo
from trainfit.estimator.needs import least_bytes, needs
from trainfit.estimator.results import Interval, TooMuchError
from trainfit.estimator.work import work
from trainfit.resolve.gpu import gpu_of
from trainfit.resolve.plan import Plan
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.gpu import JobGpu
from trainfit.specs.job import Job
from trainfit.specs.search import BY_TIME, SearchRequest
from trainfit.steptime import StepTime, jitter_ratio, step_time, surroundings_on

PlanOf = Callable[[Job], Plan]


class TimeUpError(Exception):
    """A search has no time left for another plan."""


NODE = 8
"""GPUs of the usual node, which tensor parallelism stays within where a card is not sold in one."""


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """A job on a card, with what is tried of its layout and of its step, and verdicts that are
    accepted.
    """

    job: Job
    gpu: str
    model: ModelSpec
    axes: Axes
    ladder: Sequence[Rung]
    room: Room
    accepted: Sequence[Verdict]
    plan_of: PlanOf
    memo: Memo
    price_per_gpu_hour: float | None

    @property
    def is_timed(self) -> bool:
        """Whether the card's speed is known."""
        return self.gpu in gpu_speeds()

    def jitter_ratio(self, num_gpus: int) -> float:
        """How long so many of its GPUs wait for the slowest, to all else that a step takes."""
        on = surroundings_on(self.gpu, self.job.framework.name, self.job.speed)
        assert on is not None
        return jitter_ratio(on.cluster, num_gpus)

    def on(self, num_gpus: int) -> Job:
        """The job on so many GPUs."""
        within = self.job.parallelism.model_copy(update={"num_gpus": num_gpus})
        return self.job.model_copy(update={"parallelism": within})

    def fits(self, needed: Interval) -> bool:
        """Whether bounds of the stage that needs most are such as are accepted."""
        if "tight" in self.accepted:
            return needed.low <= self.room.usable_bytes
        return needed.high <= self._limit_bytes

    @property
    def _limit_bytes(self) -> int:
        """What a stage may take by its high bound where the headroom stays free."""
        return self.room.usable_bytes - self.room.headroom_bytes

    def leaves_more(self, needed: Interval, headroom_bytes: int | None) -> bool:
        """Whether more than so much may stay free of what the stage that needs most leaves; None
        asks for no more than it does.
        """
        return headroom_bytes is None or self.room.usable_bytes - needed.high > headroom_bytes

    def least(self, plan: Plan) -> Interval:
        """What a plan needs, without what the allocator holds beyond the tensors."""
        return least_bytes(plan, self.memo)

    def option(self, job: Job, tally: Tally) -> FittingJob | None:
        """The job with all that it needs; None where it has no verdict that is accepted. Raises
        RefusedError and, as all that makes a plan does, TimeUpError.
        """
        plan = self.plan_of(job)
        if not self.fits(self.least(plan)):
            return None
        tally.work_left -= work(plan)
        if tally.work_left < 0:
            tally.fell("not_tried")
            return None
        tally.jobs += 1
        limit = None if "tight" in self.accepted else self._limit_bytes
        try:
            found = needs(plan, self.memo, limit_bytes=limit)
        except TooMuchError:
            return None
        verdict = self.room.verdict(found)
        if verdict not in self.accepted:
            return None
        most = max(stage.device_bytes.high for stage in found.stages)
        headroom, time = self.room.usable_bytes - most, self.time(plan)
        price = self.price_per_gpu_hour
        return FittingJob(
            job, plan.layout.num_gpus, self.gpu, verdict, found, headroom, time, price
        )

    def time(self, plan: Plan) -> StepTime | None:
        """The time of a step; None where the card's speed is not known."""
        found = step_time(plan, memo=self.memo)
        return found if isinstance(found, StepTime) else None


def grounds(
    request: SearchRequest, model: ModelSpec, plan_of: PlanOf, memo: Memo
) -> Iterator[Ground]:
    """Each of the request's cards with each of its alternatives. Raises UnknownGpuError, and
    pydantic's ValidationError where a listed value makes no job.
    """
    accepted: Sequence[Verdict] = ("fits",) if request.accept == "fits" else ("fits", "tight")
    objective = request.objective
    for card in request.gpus or (request.gpu,):
        assert card is not None
        known = gpu_of(card)
        for job in alternatives(request):
            placed = job.model_copy(update={"gpu": card})
            yield Ground(
                job=placed,
                gpu=known.name,
                model=model,
                axes=axes(
                    placed,
                    model,
                    request.max_tp or NODE,
                    any_cp=objective == "longest_sequence",
                    compared=objective in BY_TIME,
                ),
                ladder=ladder(placed, model),
                room=room_on(card, request.policy),
                accepted=accepted,
                plan_of=plan_of,
                memo=memo,
                price_per_gpu_hour=_price(request, card, known.name),
            )


def _price(request: SearchRequest, card: JobGpu, name: str) -> float | None:
    """That of a card, by the name that the caller gave it or that of the catalogue."""
    price = request.price_per_gpu_hour
    if isinstance(price, Mapping):
        return price.get(card if isinstance(card, str) else name, price.get(name))
    return price


def alternatives(request: SearchRequest) -> Iterable[Job]:
    """The job, with every combination of the values that are listed of further fields."""
    job = Job.model_validate(
        {
            name: getattr(request, name)
            for name in request.model_fields_set & Job.model_fields.keys()
        }
    )
    listed = request.alternatives
    for values in product(*listed.values()):
        yield apply(job, patch(job, dict(zip(listed, values, strict=True)))) if values else job

"""Pricing jobs: what those that were asked about lately have in common is worked out once."""

from collections.abc import Callable

from trainfit.estimator.estimate import estimate
from trainfit.estimator.memo import Memos
from trainfit.estimator.needs import needs
from trainfit.estimator.results import Estimate, Needs
from trainfit.estimator.work import work
from trainfit.questions.dimensions import Find, ResolvedModel, from_package
from trainfit.questions.estimate import MEMOS, plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job
from trainfit.specs.model import Model
from trainfit.steptime import StepTime, Untimed, step_time


class Pricing:
    """Prices the jobs of one question as if each were alone; without `replay` the allocator of
    none is replayed. Errors are those of `plan_of`.
    """

    def __init__(
        self, find: Find = from_package, memos: Memos = MEMOS, *, replay: bool = True
    ) -> None:
        self._find = find
        self._replay = replay
        self._found: list[tuple[Model, ResolvedModel]] = []
        self.memo = memos.current()
        self._first: tuple[Job, Plan] | None = None

    def estimate(self, job: Job, *, replay: bool = True) -> Estimate:
        replay = replay and self._replay
        return estimate(self.plan_of(job), memo=self.memo, replay=replay)

    def within(self, units: int, *, replay: bool = True) -> Callable[[Job], Estimate]:
        """Prices as many jobs as come to this work in all, and refuses the others. Without `replay`
        their allocators are not replayed.
        """
        left, replay = units, replay and self._replay

        def priced(job: Job) -> Estimate:
            nonlocal left
            plan = self.plan_of(job)
            left -= work(plan, replay=replay)
            if left < 0:
                raise RefusedError(())
            return estimate(plan, memo=self.memo, replay=replay)

        return priced

    def needs(self, job: Job, *, replay: bool = True) -> Needs:
        return needs(self.plan_of(job), self.memo, replay=replay and self._replay)

    def step_time(self, job: Job) -> StepTime | Untimed:
        return step_time(self.plan_of(job), memo=self.memo)

    def plan_of(self, job: Job) -> Plan:
        """The plan of a job, made once for the first, which the question is about."""
        if self._first is not None and self._first[0] is job:
            return self._first[1]
        plan = plan_of(job, self.model_of)
        if self._first is None:
            self._first = job, plan
        return plan

    def model_of(self, model: Model) -> ResolvedModel:
        """Equal models are read once; a config.json cannot be hashed, so they are compared."""
        for known, found in self._found:
            if known is model or known == model:
                return found
        self._found.append((model, self._find(model)))
        return self._found[-1][1]

"""Pricing jobs: what those that were asked about lately have in common is worked out once."""

from trainfit.answer import MEMOS, plan_of
from trainfit.dimensions import Find, ResolvedModel, from_package
from trainfit.estimator.estimate import estimate, needs
from trainfit.estimator.results import Estimate, Needs
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job
from trainfit.specs.model import Model


class Pricing:
    """Prices the jobs of one question as if each were alone. Errors are those of `plan_of`."""

    def __init__(self, find: Find = from_package) -> None:
        self._find = find
        self._found: list[tuple[Model, ResolvedModel]] = []
        self._memo = MEMOS.current()

    def estimate(self, job: Job) -> Estimate:
        return estimate(self._plan_of(job), memo=self._memo)

    def needs(self, job: Job) -> Needs:
        return needs(self._plan_of(job), self._memo)

    def _plan_of(self, job: Job) -> Plan:
        return plan_of(job, self._found_once)

    def _found_once(self, model: Model) -> ResolvedModel:
        """Equal models are read once; a config.json cannot be hashed, so they are compared."""
        for known, found in self._found:
            if known == model:
                return found
        self._found.append((model, self._find(model)))
        return self._found[-1][1]

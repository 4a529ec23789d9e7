"""Several jobs answered at once, in the order in which they were sent. What is wrong with one of
them is told in its place, with pointers into that job.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError

from trainfit import __version__
from trainfit.answer import EstimateAnswer, answer
from trainfit.api.jobs import answered, not_a_job, read_job
from trainfit.api.problems import INVALID_PATCH, Problem, problem
from trainfit.decisions.compare import Candidate, Comparison, compare
from trainfit.decisions.patch import PatchError, apply
from trainfit.decisions.room import room_on
from trainfit.decisions.verdict import Verdict
from trainfit.digest import catalogue_version
from trainfit.dimensions import Find, from_package
from trainfit.estimator.results import Estimate, Needs
from trainfit.pricing import Pricing
from trainfit.resolve.findings import Change, Finding
from trainfit.specs.job import Job
from trainfit.specs.model import Model
from trainfit.specs.policy import Policy
from trainfit.specs.several import UNCHANGED, BatchRequest, CompareRequest, NamedChange

Result = TypeVar("Result", bound=Estimate | Needs)
Told = Callable[[Job, Estimate | Needs | Problem], None]
"""Is told what became of each well-formed job."""


@dataclass(frozen=True, slots=True)
class EstimatedJob:
    """One job of a batch: its estimate, or the problem that stands in its place."""

    id: str
    estimate: EstimateAnswer | None
    problem: Problem | None


@dataclass(frozen=True, slots=True)
class Batch:
    """The estimates of several jobs, in the order of the request."""

    jobs: list[EstimatedJob]


@dataclass(frozen=True, slots=True)
class ComparedJob:
    """One job of a comparison, or the problem that stands in its place."""

    id: str
    comparison: Comparison | None
    problem: Problem | None


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Several jobs side by side, in the order of the request, and the baseline that they differ
    from. Differences are null where the baseline itself has a problem.
    """

    estimator_version: str
    catalogue_version: str
    baseline: ComparedJob
    jobs: list[ComparedJob]


def models_of_batch(request: BatchRequest) -> list[Model]:
    """Models of the jobs, to be looked up before the jobs are answered."""
    return list(_models(named.job for named in request.jobs))


def models_of_comparison(request: CompareRequest) -> list[Model]:
    """Models of the jobs, or of the job and of what changes make of it."""
    if request.jobs is not None:
        return list(_models(named.job for named in request.jobs))
    assert request.job is not None
    assert request.changes is not None
    others = (
        _changed(request.job, change)
        for change in request.changes
        if any(operation.path.startswith("/model") for operation in change.patch)
    )
    return [request.job.model, *(job.model for job in others if not isinstance(job, Problem))]


def _models(documents: Iterable[Any]) -> Iterator[Model]:
    """Those that are well-formed; what is wrong with the others is told when they are answered."""
    for document in documents:
        if isinstance(document, dict):
            with suppress(ValidationError):
                yield Model.model_validate(document.get("model"))


def estimate_batch(
    request: BatchRequest, told: Told, *, activations: bool = True, find: Find = from_package
) -> Batch:
    """An estimate or a problem for each job."""
    ask = partial(answer, activations=activations, find=find)
    jobs = []
    for named in request.jobs:
        result = _asked(read_job(named.job, Job), ask, told)
        if isinstance(result, Problem):
            jobs.append(EstimatedJob(named.id, None, result))
        else:
            jobs.append(EstimatedJob(named.id, result, None))
    return Batch(jobs)


def compare_jobs(request: CompareRequest, told: Told, *, find: Find = from_package) -> SideBySide:
    """Each job beside a baseline: one of them, or the job that changes are made to."""
    jobs = dict(_jobs(request))
    pricing = Pricing(find)
    results = {name: _asked(job, pricing.needs, told) for name, job in jobs.items()}
    names = list(jobs)
    baseline = request.baseline or names[0]
    priced = [
        Candidate(name, needs, _verdict(jobs[name], needs))
        for name, needs in results.items()
        if isinstance(needs, Needs)
    ]
    base = results[baseline]
    comparisons = compare(priced, base if isinstance(base, Needs) else None)
    beside = dict(zip([each.id for each in priced], comparisons, strict=True))

    def compared(name: str) -> ComparedJob:
        result = results[name]
        return ComparedJob(name, beside.get(name), result if isinstance(result, Problem) else None)

    asked = names if request.jobs is not None else names[1:]
    return SideBySide(
        estimator_version=__version__,
        catalogue_version=catalogue_version(),
        baseline=compared(baseline),
        jobs=[compared(name) for name in asked],
    )


def _asked(job: Job | Problem, ask: Callable[[Job], Result], told: Told) -> Result | Problem:
    if isinstance(job, Problem):
        return job
    result = answered(job, ask)
    told(job, result)
    return result


def _verdict(job: Job | Problem, needs: Needs) -> Verdict | None:
    """The verdict on the card that the job names, all of which is usable."""
    if isinstance(job, Problem) or job.gpu is None:
        return None
    return room_on(job.gpu, Policy()).verdict(needs)


def _jobs(request: CompareRequest) -> Iterator[tuple[str, Job | Problem]]:
    if request.jobs is not None:
        for named in request.jobs:
            yield named.id, read_job(named.job, Job)
    else:
        assert request.job is not None
        assert request.changes is not None
        yield UNCHANGED, request.job
        for change in request.changes:
            yield change.id, _changed(request.job, change)


def _changed(job: Job, change: NamedChange) -> Job | Problem:
    operations = [Change(each.op, each.path, each.value) for each in change.patch]
    try:
        return apply(job, operations)
    except PatchError as error:
        pointer = f"/patch/{operations.index(error.change)}/path"
        return problem(
            INVALID_PATCH, error.message, [Finding(pointer, "no_such_path", error.message)]
        )
    except ValidationError as error:
        return not_a_job(error, Job)

"""Several jobs answered at once, in the order in which they were sent. What is wrong with one of
them is told in its place, with pointers into that job.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pydantic import ValidationError

from trainfit import __version__
from trainfit.answer import EstimateAnswer, answer
from trainfit.api.jobs import not_a_job
from trainfit.api.kinds import INVALID_PATCH
from trainfit.api.launches import LAUNCH, Asked, job_from, read_asked
from trainfit.api.problems import Problem, problem
from trainfit.decisions.compare import Candidate, Comparison, compare
from trainfit.decisions.patch import PatchError, apply
from trainfit.decisions.room import room_on
from trainfit.decisions.verdict import Verdict
from trainfit.digest import catalogue_version
from trainfit.dimensions import Find, from_package
from trainfit.estimator.results import Estimate, Needs
from trainfit.launch.reading import LaunchReading, ReadLaunch
from trainfit.pricing import Pricing
from trainfit.releases import needed
from trainfit.resolve.findings import Change, Finding
from trainfit.specs.job import Job
from trainfit.specs.policy import Headroom
from trainfit.specs.several import (
    UNCHANGED,
    BatchRequest,
    CompareRequest,
    NamedChange,
    NamedJob,
)

Result = TypeVar("Result", bound=Estimate | Needs)
Told = Callable[[Job, Estimate | Needs | Problem], None]
"""Is told what became of each well-formed job."""
Opened = Mapping[str, Asked[Job] | Problem]
"""Jobs as they were read, in the order of the request."""


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
    """One job of a comparison, or the problem that stands in its place. `launch` tells how it was
    read, where a launch stood in its place.
    """

    id: str
    comparison: Comparison | None
    problem: Problem | None
    launch: ReadLaunch | None


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Several jobs side by side, in the order of the request, and the baseline that they differ
    from. Differences are null where the baseline itself has a problem.
    """

    estimator_version: str
    catalogue_version: str
    baseline: ComparedJob
    jobs: list[ComparedJob]


def read_batch(request: BatchRequest) -> Opened:
    """Each job by its id, or what is wrong with its fields."""
    return dict(_named(request.jobs))


def read_comparison(request: CompareRequest) -> Opened:
    """The jobs by their ids, or the job and what changes make of it."""
    if request.jobs is not None:
        return dict(_named(request.jobs))
    assert request.changes is not None
    base: Asked[Job] | Problem
    if request.launch is not None:
        base = job_from(request.launch, LAUNCH)
    else:
        assert request.job is not None
        base = Asked(request.job)
    changed = {each.id: _changed(base, each) for each in request.changes}
    return {UNCHANGED: base, **changed}


def jobs_of(opened: Opened) -> list[Job]:
    """The jobs that can be answered; their models are looked up before."""
    return [each.job for each in opened.values() if isinstance(each, Asked)]


def estimate_batch(
    opened: Opened, told: Told, *, activations: bool = True, find: Find = from_package
) -> Batch:
    """An estimate or a problem for each job."""

    def ask(job: Job, reading: LaunchReading | None) -> EstimateAnswer:
        return answer(job, activations=activations, find=find, reading=reading)

    jobs = []
    for name, asked in opened.items():
        result = _answered(asked, ask, told)
        if isinstance(result, Problem):
            jobs.append(EstimatedJob(name, None, result))
        else:
            jobs.append(EstimatedJob(name, result, None))
    return Batch(jobs)


def compare_jobs(
    request: CompareRequest, opened: Opened, told: Told, *, find: Find = from_package
) -> SideBySide:
    """Each job beside a baseline: one of them, or the job that changes are made to."""
    pricing = Pricing(find)
    results = {
        name: _answered(asked, partial(_needs, asked, pricing), told)
        for name, asked in opened.items()
    }
    names = list(opened)
    baseline = request.baseline or names[0]
    priced = [
        Candidate(name, needs, _verdict(opened[name], needs, request.policy))
        for name, needs in results.items()
        if isinstance(needs, Needs)
    ]
    base = results[baseline]
    comparisons = compare(priced, base if isinstance(base, Needs) else None)
    beside = dict(zip([each.id for each in priced], comparisons, strict=True))

    def compared(name: str) -> ComparedJob:
        asked, result = opened[name], results[name]
        return ComparedJob(
            name,
            beside.get(name),
            result if isinstance(result, Problem) else None,
            asked.launch if isinstance(asked, Asked) else None,
        )

    shown = names if request.jobs is not None else names[1:]
    return SideBySide(
        estimator_version=__version__,
        catalogue_version=catalogue_version(),
        baseline=compared(baseline),
        jobs=[compared(name) for name in shown],
    )


def _named(jobs: Iterable[NamedJob]) -> Iterator[tuple[str, Asked[Job] | Problem]]:
    for named in jobs:
        document = {"launch": named.launch} if named.launch is not None else named.job
        yield named.id, read_asked(document, Job)


def _answered(
    asked: Asked[Job] | Problem,
    ask: Callable[[Job, LaunchReading | None], Result],
    told: Told,
) -> Result | Problem:
    if isinstance(asked, Problem):
        return asked
    result = asked.answered(ask)
    told(asked.job, result)
    return result


def _needs(
    asked: Asked[Job] | Problem, pricing: Pricing, job: Job, _: LaunchReading | None
) -> Needs:
    return needed(job, asked.variants if isinstance(asked, Asked) else (), pricing.needs)


def _verdict(asked: Asked[Job] | Problem, needs: Needs, policy: Headroom) -> Verdict | None:
    """The verdict on the card that the job names."""
    if isinstance(asked, Problem) or asked.job.gpu is None:
        return None
    return "unknown" if asked.unread else room_on(asked.job.gpu, policy).verdict(needs)


def _changed(base: Asked[Job] | Problem, change: NamedChange) -> Asked[Job] | Problem:
    if isinstance(base, Problem):
        return base
    operations = [Change(each.op, each.path, each.value) for each in change.patch]
    try:
        changed = apply(base.job, operations)
        return Asked(changed, unread=base.unread, variants=base.variants)
    except PatchError as error:
        pointer = f"/patch/{operations.index(error.change)}/path"
        return problem(
            INVALID_PATCH, error.message, [Finding(pointer, "no_such_path", error.message)]
        )
    except ValidationError as error:
        return not_a_job(error, Job)

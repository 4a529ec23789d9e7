"""Jobs side by side, in the order in which they were sent, as they are sent."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pydantic import ValidationError

from trainfit import __version__
from trainfit.decisions.compare import Comparison, NamedNeeds, compare
from trainfit.decisions.patch import PatchError, apply
from trainfit.decisions.quantities import gib, plain
from trainfit.decisions.room import room_on
from trainfit.decisions.verdict import Verdict, standing
from trainfit.estimator.results import Needs
from trainfit.estimator.work import work
from trainfit.launch.reading import LaunchReading, ReadLaunch
from trainfit.questions.answers import Sent, html_table
from trainfit.questions.bounds import bounded_needs
from trainfit.questions.digest import catalogue_version
from trainfit.questions.dimensions import Find, from_package
from trainfit.questions.jobs import not_a_job
from trainfit.questions.kinds import INVALID_PATCH
from trainfit.questions.launches import LAUNCH, RequestedJob, job_from
from trainfit.questions.pricing import Pricing
from trainfit.questions.problems import ANSWER_ERRORS, Problem, problem
from trainfit.questions.releases import needed
from trainfit.questions.several import Observe, Opened, answered_one, named_jobs
from trainfit.resolve.findings import Change, Finding
from trainfit.specs.job import Job
from trainfit.specs.policy import Headroom
from trainfit.specs.several import (
    UNCHANGED,
    CompareRequest,
    NamedChange,
)
from trainfit.steptime import Seconds, StepTime

REPLAYED_WORK = 3_000_000
"""Work for all jobs, up to which their allocators are replayed, some seconds at most. What more
jobs reserve rests on a ratio, that of each of them.
"""


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
class SideBySide(Sent):
    """Several jobs side by side, in the order of the request, and the baseline that they differ
    from. Differences are null where the baseline itself has a problem.
    """

    estimator_version: str
    catalogue_version: str
    baseline: ComparedJob
    jobs: list[ComparedJob]

    def _repr_html_(self) -> str:
        """A row for every job, for a notebook."""
        rows = []
        for each in self.jobs:
            beside = each.comparison
            if beside is None:
                rows.append([each.id, each.problem.detail if each.problem is not None else "", ""])
            else:
                device = beside.binding.device_bytes
                span = f"{gib(device.low)}–{gib(device.high)}"
                rows.append([each.id, plain(beside.verdict or ""), span])
        return html_table("Compared", ["job", "verdict", "GiB on the device"], rows)


def read_comparison(request: CompareRequest) -> Opened:
    """The jobs by their ids, or the job and what changes make of it."""
    if request.jobs is not None:
        return dict(named_jobs(request.jobs))
    assert request.changes is not None
    base: RequestedJob[Job] | Problem
    if request.launch is not None:
        base = job_from(request.launch, LAUNCH)
    else:
        assert request.job is not None
        base = RequestedJob(request.job)
    changed = {each.id: _changed(base, each) for each in request.changes}
    return {UNCHANGED: base, **changed}


def compare_jobs(
    request: CompareRequest, opened: Opened, observe: Observe, *, find: Find = from_package
) -> SideBySide:
    """Each job beside a baseline: one of them, or the job that changes are made to."""
    pricing = Pricing(find)
    replay = (
        request.replay and sum(_work(asked, pricing) for asked in opened.values()) <= REPLAYED_WORK
    )
    price = partial(pricing.needs, replay=replay)
    results = {
        name: answered_one(asked, partial(_needs, asked, price), observe)
        for name, asked in opened.items()
    }
    names = list(opened)
    baseline = request.baseline or names[0]
    priced = [
        NamedNeeds(
            name,
            needs,
            _verdict(opened[name], needs, request.policy),
            _step_seconds(opened[name], pricing),
        )
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
            asked.launch if isinstance(asked, RequestedJob) else None,
        )

    shown = names if request.jobs is not None else names[1:]
    return SideBySide(
        estimator_version=__version__,
        catalogue_version=catalogue_version(),
        baseline=compared(baseline),
        jobs=[compared(name) for name in shown],
    )


def _work(asked: RequestedJob[Job] | Problem, pricing: Pricing) -> int:
    """Work for a job, none for one that is refused."""
    if isinstance(asked, Problem):
        return 0
    try:
        return work(pricing.plan_of(asked.job))
    except ANSWER_ERRORS:
        return 0


def _needs(
    asked: RequestedJob[Job] | Problem,
    price: Callable[[Job], Needs],
    job: Job,
    _: LaunchReading | None,
) -> Needs:
    if isinstance(asked, Problem):
        return price(job)
    variants = asked.variants
    return bounded_needs(job, asked.bounded, lambda each: needed(each, variants, price))


def _verdict(asked: RequestedJob[Job] | Problem, needs: Needs, policy: Headroom) -> Verdict | None:
    """The verdict on the card that the job names."""
    if isinstance(asked, Problem) or asked.job.gpu is None:
        return None
    return standing(room_on(asked.job.gpu, policy).verdict(needs), asked.unread)


def _step_seconds(asked: RequestedJob[Job] | Problem, pricing: Pricing) -> Seconds | None:
    """How long a step of the job takes, as it was sent."""
    if isinstance(asked, Problem):
        return None
    timed = pricing.step_time(asked.job)
    return timed.seconds if isinstance(timed, StepTime) else None


def _changed(base: RequestedJob[Job] | Problem, change: NamedChange) -> RequestedJob[Job] | Problem:
    if isinstance(base, Problem):
        return base
    operations = [Change(each.op, each.path, each.value) for each in change.patch]
    try:
        changed = apply(base.job, operations)
        return RequestedJob(
            changed, unread=base.unread, variants=base.variants, bounded=base.bounded
        )
    except PatchError as error:
        pointer = f"/patch/{operations.index(error.change)}/path"
        return problem(
            INVALID_PATCH, error.message, [Finding(pointer, "no_such_path", error.message)]
        )
    except ValidationError as error:
        return not_a_job(error, Job)

"""From a job to its estimate: the one path, shared by HTTP and the terminal."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from trainfit import __version__
from trainfit.errors import TrainfitError
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks import registry as estimated_frameworks
from trainfit.estimator.memo import Memos
from trainfit.estimator.results import Estimate
from trainfit.questions.digest import catalogue_version, normalised, request_digest
from trainfit.questions.dimensions import Find, from_package
from trainfit.questions.summary import summary_lines
from trainfit.resolve import registry as resolved_frameworks
from trainfit.resolve.gpu import gpu_of
from trainfit.resolve.job import resolve
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job
from trainfit.steptime import StepTime, Untimed, step_time
from trainfit.steptime.alignment import misaligned

if TYPE_CHECKING:
    from trainfit.launch.reading import LaunchReading
    from trainfit.questions.estimate_answer import EstimateAnswer

MEMOS = Memos(max_results=2048)
"""What jobs that were asked about lately have in common: some 15 kB for each result."""


class VersionNotServedError(TrainfitError, ValueError):
    """The job is to be answered by a version of the estimator that is not this one."""

    def __init__(self) -> None:
        super().__init__(f"the version that is served is {__version__}")


def load_frameworks() -> None:
    """Load the rooms of every framework, so that no caller of a process that goes on waits for the
    first job of one.
    """
    resolved_frameworks.all_frameworks()
    estimated_frameworks.all_frameworks()


def answer(
    job: Job,
    *,
    activations: bool = True,
    replay: bool = True,
    find: Find = from_package,
    reading: LaunchReading | None = None,
    plan: Plan | None = None,
) -> EstimateAnswer:
    """The estimate of a job, as it is sent, its allocator replayed or not. Errors are those of
    `plan_of`, unless that is known.
    """
    plan = plan or plan_of(job, find)
    result = estimate_over_releases(
        job, plan, reading, activations=activations, replay=replay, find=find
    )
    return signed(job, plan, result, activations=activations, replay=replay, reading=reading)


def estimate_over_releases(
    job: Job,
    plan: Plan,
    reading: LaunchReading | None,
    *,
    activations: bool = True,
    replay: bool = True,
    find: Find = from_package,
) -> Estimate:
    """The estimate of the plan of a job, within the bounds of every release that the launch which
    it was read from can be of, and of its options that are not modelled.
    """
    memo = MEMOS.current()

    def price(each: Job) -> Estimate:
        known = plan if each is job else plan_of(each, find)
        return estimate(known, activations=activations, replay=replay, memo=memo)

    if reading is None:
        return price(job)
    from trainfit.questions.bounds import bounded_estimate
    from trainfit.questions.releases import estimated

    variants = reading.launch.variants
    return bounded_estimate(
        job, reading.launch.account.bounded, lambda each: estimated(each, variants, price)
    )


def signed(
    job: Job,
    plan: Plan,
    result: Estimate,
    *,
    activations: bool,
    replay: bool = True,
    reading: LaunchReading | None = None,
) -> EstimateAnswer:
    """An estimate, as it is sent. It warns of what a launch says and nobody models."""
    from trainfit.questions.estimate_answer import EstimateAnswer

    document = normalised(job, plan)
    timed = step_time(plan, memo=MEMOS.current())
    options: dict[str, Any] = {"activations": activations, "replay": replay}
    launch = reading.launch if reading is not None else None
    if reading is not None:
        options["launch"] = asdict(reading.launch)
        unread = [each.message for each in reading.unread()]
        result = replace(result, warnings=[*result.warnings, *unread])
    return EstimateAnswer(
        **fields_of(result),
        step_seconds=timed.seconds if isinstance(timed, StepTime) else None,
        step=timed.step if isinstance(timed, StepTime) else None,
        untimed=timed.reason if isinstance(timed, Untimed) else None,
        misaligned=misaligned(plan, MEMOS.current()),
        summary=summary_lines(result, timed, activations=activations),
        catalogue_version=catalogue_version(),
        request_digest=request_digest("estimate", document, options, plan.source),
        job=document,
        launch=launch,
    )


def price(job: Job) -> Estimate:
    """The estimate of a job, for a decision. Errors are those of `plan_of`."""
    return estimate(plan_of(job), memo=MEMOS.current())


def fields_of(result: Any) -> dict[str, Any]:
    """The fields of a dataclass by their names, each as it is."""
    return {field.name: getattr(result, field.name) for field in fields(result)}


def plan_of(job: Job, find: Find = from_package) -> Plan:
    """The Plan of a job whose model was looked up; unless it was, the package alone is asked.

    Raises VersionNotServedError, UnknownGpuError, RefusedError and what `find` raises.
    """
    if job.estimator_version not in (None, __version__):
        raise VersionNotServedError
    model = find(job.model)
    plan = resolve(job, model.spec, model.source, gpu_of(job.gpu))
    if job.training.peft is not None:
        from trainfit.questions.targets import check_targets

        check_targets(plan, MEMOS.current())
    if not model.defaults and not model.remarks:
        return plan
    defaults = (*plan.defaults, *model.defaults) if model.defaults else plan.defaults
    return replace(plan, defaults=defaults, remarks=model.remarks + plan.remarks)

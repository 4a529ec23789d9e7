"""Launches in the place of jobs: read, and what is wrong with them named where they say it.

A command about a job in its own words does without the models and tables of launches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import ValidationError

from trainfit.questions.jobs import AnyJob, answered, not_a_job, read_job
from trainfit.questions.kinds import INVALID_LAUNCH, MAX_ERRORS
from trainfit.questions.problems import Problem, problem, summary
from trainfit.resolve.findings import Finding
from trainfit.specs.job import Job

if TYPE_CHECKING:
    from trainfit.estimator.results import Direction
    from trainfit.launch.account import Bounded
    from trainfit.launch.drafted import DraftedJob
    from trainfit.launch.errors import Complaint, LaunchError
    from trainfit.launch.reading import LaunchReading, ReadLaunch
    from trainfit.launch.variants import Variant
    from trainfit.specs.launch import Launch, LaunchedJob

LAUNCH = "/launch"
"""Where a launch stands in a question."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class RequestedJob(Generic[AnyJob]):
    """A job, and how it was read where a launch stood in its place. `unread` says in which
    directions that moves the peak which is not modelled, nobody knows how far.
    """

    job: AnyJob
    reading: LaunchReading | None = None
    prefix: str = LAUNCH
    unread: Sequence[Direction] = ()
    variants: Sequence[Variant] = ()
    """What the job would be under other releases that the launch can be of."""
    bounded: Sequence[Bounded] = ()
    """Options of the launch that are not modelled, and how far they move the peak."""

    @property
    def launch(self) -> ReadLaunch | None:
        return self.reading.launch if self.reading is not None else None

    def answered(
        self, answer: Callable[[AnyJob, LaunchReading | None], Answer]
    ) -> Answer | Problem:
        """The answer, or why there is none."""
        result = answered(self.job, lambda job: answer(job, self.reading))
        if isinstance(result, Problem) and self.reading is not None:
            return _placed(result, self.reading, self.prefix)
        return result


def read_asked(document: Any, kind: type[AnyJob]) -> RequestedJob[AnyJob] | Problem:
    """A job of this kind, or a launch in its place, from a document that holds either."""
    if not (isinstance(document, dict) and "launch" in document):
        job = read_job(document, kind)
        return job if isinstance(job, Problem) else RequestedJob(job)
    launched = _launched()[kind]
    try:
        question = launched.model_validate(document)
    except ValidationError as error:
        return not_a_job(error, launched)
    return job_of(question, kind)


def _launched() -> Mapping[type[Job], type[LaunchedJob]]:
    """What takes the place of each kind of job."""
    from trainfit.specs.launch import LaunchedFitCheck, LaunchedJob
    from trainfit.specs.policy import FitCheckRequest
    from trainfit.specs.reconcile import LaunchedReconcile, ReconcileRequest
    from trainfit.specs.search import LaunchedSearch, SearchRequest

    return {
        Job: LaunchedJob,
        FitCheckRequest: LaunchedFitCheck,
        ReconcileRequest: LaunchedReconcile,
        SearchRequest: LaunchedSearch,
    }


def job_of(question: LaunchedJob, kind: type[AnyJob]) -> RequestedJob[AnyJob] | Problem:
    """The job of this kind that a question with a launch is about."""
    beside = question.model_dump(exclude={"launch"}, exclude_unset=True)
    return _read(question.launch, kind, beside, LAUNCH)


def job_from(launch: Launch, prefix: str = "") -> RequestedJob[Job] | Problem:
    """The job of a launch that stands at `prefix` of a question."""
    return _read(launch, Job, {}, prefix)


def _read(
    launch: Launch, kind: type[AnyJob], beside: dict[str, Any], prefix: str
) -> RequestedJob[AnyJob] | Problem:
    from trainfit.launch.errors import LaunchError
    from trainfit.launch.read import read_launch, read_open
    from trainfit.launch.task import task_of
    from trainfit.specs.policy import FitCheckRequest
    from trainfit.specs.search import SearchRequest

    try:
        reading = read_launch(launch)
    except LaunchError as error:
        # A verdict may be the same whatever an open fact is; a figure is not.
        tried = read_open(launch, error) if issubclass(kind, FitCheckRequest) else None
        if tried is None:
            return _unreadable(error, launch, prefix)
        reading = tried
    read_as = reading.job
    if issubclass(kind, SearchRequest):
        read_as = task_of(reading, any_gpus=beside.get("objective") == "fewest_gpus")
    job = read_job({**read_as, **beside}, kind)
    if isinstance(job, Problem):
        return _placed(job, reading, prefix)
    unread = [each.direction for each in reading.unread()]
    read, bounded = reading.launch, reading.launch.account.bounded
    if job.gpu is None:  # a share of its memory bounds nothing
        unread += [each.direction for each in bounded if each.share]
        bounded = [each for each in bounded if not each.share]
    return RequestedJob(job, reading, prefix, unread, read.variants, bounded)


def draft_from(launch: Launch) -> DraftedJob | Problem:
    """What a launch says in words that everyone uses, a part of a job to confirm."""
    from trainfit.launch.common_words import drafted
    from trainfit.launch.errors import LaunchError

    try:
        return drafted(launch)
    except LaunchError as error:
        return _unreadable(error, launch, "")


def _unreadable(error: LaunchError, launch: Launch, prefix: str) -> Problem:
    findings = [_finding(each, launch, prefix) for each in error.complaints[:MAX_ERRORS]]
    return problem(INVALID_LAUNCH, summary(findings), findings)


def _finding(complaint: Complaint, launch: Launch, prefix: str) -> Finding:
    from trainfit.launch.reading import place_in

    pointer = prefix + place_in(launch, complaint.file)
    missing = tuple(prefix + each for each in complaint.missing)
    return Finding(pointer, "invalid_launch", complaint.message, (), complaint.line, missing)


def _placed(found: Problem, reading: LaunchReading, prefix: str) -> Problem:
    """The problem with pointers into the launch that the job was read from."""
    findings = [_moved(each, reading, prefix) for each in found.errors]
    return replace(found, errors=findings, detail=summary(findings) if findings else found.detail)


def _moved(finding: Finding, reading: LaunchReading, prefix: str) -> Finding:
    place = reading.place_of(finding.pointer)
    pointer = prefix + place.pointer
    return replace(
        finding,
        pointer=pointer,
        message=f"{place.words}: {finding.message}",
        line=place.line,
        missing=(pointer,) if finding.code == "missing" else (),
    )

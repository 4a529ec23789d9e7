"""Estimates of several jobs, in the order in which they were sent."""

from dataclasses import dataclass

from trainfit.launch.reading import LaunchReading
from trainfit.questions.dimensions import Find, from_package
from trainfit.questions.estimate import answer
from trainfit.questions.estimate_answer import EstimateAnswer
from trainfit.questions.problems import Problem
from trainfit.questions.several import Observe, Opened, answered_one, named_jobs
from trainfit.specs.job import Job
from trainfit.specs.several import BatchRequest


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


def read_batch(request: BatchRequest) -> Opened:
    """Each job by its id, or what is wrong with its fields."""
    return dict(named_jobs(request.jobs))


def estimate_batch(
    opened: Opened,
    observe: Observe,
    *,
    activations: bool = True,
    replay: bool = True,
    find: Find = from_package,
) -> Batch:
    """An estimate or a problem for each job."""

    def ask(job: Job, reading: LaunchReading | None) -> EstimateAnswer:
        return answer(job, activations=activations, replay=replay, find=find, reading=reading)

    jobs = []
    for name, asked in opened.items():
        result = answered_one(asked, ask, observe)
        if isinstance(result, Problem):
            jobs.append(EstimatedJob(name, None, result))
        else:
            jobs.append(EstimatedJob(name, result, None))
    return Batch(jobs)

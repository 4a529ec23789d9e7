"""Several jobs asked about at once. What is wrong with one of them is said in its place, with
pointers into that job.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from trainfit.estimator.results import Estimate, Needs
from trainfit.launch.reading import LaunchReading
from trainfit.questions.launches import RequestedJob, read_asked
from trainfit.questions.problems import Problem
from trainfit.specs.job import Job
from trainfit.specs.several import NamedJob

Result = TypeVar("Result", bound=Estimate | Needs)
Observe = Callable[[Job, Estimate | Needs | Problem], None]
"""Is called with what became of each well-formed job."""
Opened = Mapping[str, RequestedJob[Job] | Problem]
"""Jobs as they were read, in the order of the request."""


def named_jobs(jobs: Iterable[NamedJob]) -> Iterator[tuple[str, RequestedJob[Job] | Problem]]:
    """Each job by its id, or what is wrong with its fields."""
    for named in jobs:
        document = {"launch": named.launch} if named.launch is not None else named.job
        yield named.id, read_asked(document, Job)


def jobs_of(opened: Opened) -> list[Job]:
    """The jobs that can be answered; their models are looked up before."""
    return [each.job for each in opened.values() if isinstance(each, RequestedJob)]


def answered_one(
    asked: RequestedJob[Job] | Problem,
    ask: Callable[[Job, LaunchReading | None], Result],
    observe: Observe,
) -> Result | Problem:
    """The answer to one of the jobs, or why there is none; `observe` hears of it."""
    if isinstance(asked, Problem):
        return asked
    result = asked.answered(ask)
    observe(asked.job, result)
    return result

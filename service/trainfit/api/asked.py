"""What a request asks about: a job, or the job of a launch in its place."""

from fastapi import Request

from trainfit.api.failures import ProblemError
from trainfit.api.metrics import metrics_of
from trainfit.api.replies import launch_tally
from trainfit.api.work import in_worker
from trainfit.questions.jobs import AnyJob
from trainfit.questions.launches import RequestedJob, job_of
from trainfit.questions.problems import Problem
from trainfit.specs.job import Job
from trainfit.specs.launch import LaunchedJob


async def asked_of(
    request: Request, question: Job | LaunchedJob, kind: type[AnyJob]
) -> RequestedJob[AnyJob]:
    """What a question is about. A launch is read in a worker. Raises ProblemError."""
    if isinstance(question, kind):
        return RequestedJob(question)
    assert isinstance(question, LaunchedJob)
    result = await in_worker(request, "reading", job_of, question, kind)
    metrics_of(request).launch_asked(launch_tally(question.launch, result))
    if isinstance(result, Problem):
        raise ProblemError(result)
    return result

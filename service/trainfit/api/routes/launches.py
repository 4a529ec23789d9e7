"""POST /v1/jobs:from-launch: the job that launch files describe."""

from typing import Annotated

from fastapi import APIRouter, Body, Request
from fastapi.concurrency import run_in_threadpool

from trainfit.api.asked import told
from trainfit.api.examples import LAUNCH_EXAMPLES
from trainfit.api.json_body import JsonRoute
from trainfit.api.launches import job_from
from trainfit.api.openapi import problem_responses
from trainfit.api.problems import BODY_PROBLEMS, INVALID_LAUNCH
from trainfit.launch.reading import JobFromLaunch
from trainfit.specs.launch import Launch

router = APIRouter(prefix="/v1", tags=["launches"], route_class=JsonRoute)


@router.post(
    "/jobs:from-launch",
    operation_id="jobFromLaunch",
    summary="Read the job that launch files and a command line describe",
    response_description="The job, and what became of every key of the launch.",
    responses=problem_responses(*BODY_PROBLEMS, INVALID_LAUNCH),
)
async def job_from_launch(
    request: Request, launch: Annotated[Launch, Body(openapi_examples=LAUNCH_EXAMPLES)]
) -> JobFromLaunch:
    """Nothing is run, and nothing is read but what is sent. Each key is recognised, known not to
    change memory, or unsupported; a verdict on a job of which a key is unsupported is unknown,
    unless the launch accepts it.
    """
    asked = told(request, launch, await run_in_threadpool(job_from, launch))
    assert asked.reading is not None
    return JobFromLaunch.of(asked.reading)

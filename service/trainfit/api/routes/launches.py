"""POST /v1/jobs:from-launch, :draft and :to-launch: jobs out of launch files, and back."""

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from trainfit.api.examples import DRAFT_EXAMPLES, LAUNCH_EXAMPLES, TO_LAUNCH_EXAMPLES
from trainfit.api.json_body import JsonRoute
from trainfit.api.kinds import BODY_PROBLEMS, JOB_PROBLEMS
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import problem_responses
from trainfit.api.replies import draft_reply, launch_reply, reading_reply
from trainfit.api.work import reply_from, sent
from trainfit.launch.convert.targets import WrittenLaunch
from trainfit.launch.drafted import DraftedJob
from trainfit.launch.reading import JobFromLaunch
from trainfit.questions.kinds import INVALID_LAUNCH
from trainfit.specs.launch import Launch, ToLaunch

router = APIRouter(prefix="/v1", tags=["launches"], route_class=JsonRoute)


@router.post(
    "/jobs:to-launch",
    operation_id="jobToLaunch",
    summary="Write a job in the keys of its framework",
    response_model=WrittenLaunch,
    response_description="Arguments to paste, and the files that go with them.",
    responses=problem_responses(*JOB_PROBLEMS),
)
async def job_to_launch(
    request: Request,
    question: Annotated[ToLaunch, Body(openapi_examples=TO_LAUNCH_EXAMPLES)],
    hf_token: HfToken = None,
) -> Response:
    """Read back with the same number of GPUs, they make the same job. What those keys cannot say is
    refused by name.
    """
    job = question.job
    find = await look_up(request, [job.model], hf_token)
    return sent(await reply_from(request, "quick", launch_reply, job, question.to, find))


@router.post(
    "/jobs:from-launch",
    operation_id="jobFromLaunch",
    summary="Read the job that launch files and a command line describe",
    response_model=JobFromLaunch,
    response_description="The job, and what became of every key of the launch.",
    responses=problem_responses(*BODY_PROBLEMS, INVALID_LAUNCH),
)
async def job_from_launch(
    request: Request, launch: Annotated[Launch, Body(openapi_examples=LAUNCH_EXAMPLES)]
) -> Response:
    """Nothing is run, and nothing is read but what is sent. Each key is recognised, known not to
    change memory, or unsupported; a verdict on a job of which a key is unsupported is unknown,
    unless the launch accepts it.
    """
    return sent(await reply_from(request, "reading", reading_reply, launch))


@router.post(
    "/jobs:draft",
    operation_id="jobDraft",
    summary="Read what the launch of an unknown program says in words that everyone uses",
    response_model=DraftedJob,
    response_description="A part of a job to confirm and complete, and each word with its place.",
    responses=problem_responses(*BODY_PROBLEMS, INVALID_LAUNCH),
)
async def job_draft(
    request: Request, launch: Annotated[Launch, Body(openapi_examples=DRAFT_EXAMPLES)]
) -> Response:
    """Where no reader knows the program: the model, sizes, the batch, the length, a rank of
    adapters. It is no job yet, since whose defaults hold is not known. A word that is said in two
    ways is named and not taken.
    """
    return sent(await reply_from(request, "reading", draft_reply, launch))

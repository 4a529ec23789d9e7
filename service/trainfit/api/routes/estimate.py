"""POST /v1/estimate and /v1/estimate:batch: the memory that jobs need."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse

from trainfit.api.answers import RememberingRoute, remembered
from trainfit.api.asked import asked_of
from trainfit.api.cost import lane_of, size_of
from trainfit.api.deadline import DeadlinePassedError, Deadlines
from trainfit.api.examples import BATCH_EXAMPLES, ESTIMATE_EXAMPLES
from trainfit.api.failures import ProblemError
from trainfit.api.json_body import JsonRequest
from trainfit.api.kinds import BODY_PROBLEMS, JOB_PROBLEMS, TIMED_OUT
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import SIGNED, problem_responses
from trainfit.api.replies import (
    EstimateWanted,
    batch_reply,
    estimate_at_once,
    estimate_reply,
    line_of,
    line_reply,
)
from trainfit.api.work import checked, lane_for, opened, reply_from, sent
from trainfit.questions.batch import Batch, EstimatedJob, read_batch
from trainfit.questions.dimensions import Find
from trainfit.questions.estimate_answer import EstimateAnswer
from trainfit.questions.problems import problem
from trainfit.questions.several import Opened, jobs_of
from trainfit.questions.summary import Summary
from trainfit.specs.job import Job
from trainfit.specs.launch import JobOrLaunch
from trainfit.specs.several import BatchRequest

IN_BRIEF: dict[int | str, dict[str, Any]] = {
    200: {**SIGNED[200], "content": {"text/plain": {"schema": {"type": "string"}}}},
}

JSON, TEXT = "application/json", "text/plain"
QUALITY = re.compile(r";\s*q=(\d*\.?\d+)")

LINES = "application/x-ndjson"
STREAM_SECONDS = 120
"""For all jobs whose estimates are sent one by one; their caller ends them by hanging up."""

router = APIRouter(prefix="/v1", tags=["estimates"], route_class=RememberingRoute)


class Options(BaseModel):
    """What is asked for beside jobs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    activations: bool = Field(
        True, description="false: model states only, without activations and workspaces."
    )
    replay: bool = Field(
        True,
        description="false: what is reserved rests on a ratio, with wider bounds, in a hundredth "
        "of the time that it takes to replay the requests to PyTorch's allocator.",
    )


class EstimateOptions(Options):
    """What is asked for beside one job."""

    summary: Summary | None = Field(
        None,
        description="Text in place of JSON, of the stage that needs most: mb or gb is Megatron's "
        "line, with experts and the rest apart; total is one number, the bytes that are expected "
        "on each of its GPUs. A caller whose Accept names application/json first, as those of most "
        "generated clients do, is sent the whole answer, whose `summary` has the lines.",
    )


@router.post(
    "/estimate",
    operation_id="estimate",
    summary="Estimate the memory of every pipeline rank",
    response_model=EstimateAnswer,
    response_description="The memory of every pipeline rank and what it is made of.",
    responses=IN_BRIEF | problem_responses(*JOB_PROBLEMS),
)
async def estimate(
    request: JsonRequest,
    question: Annotated[JobOrLaunch, Body(title="JobOrLaunch", openapi_examples=ESTIMATE_EXAMPLES)],
    options: Annotated[EstimateOptions, Query()],
    hf_token: HfToken = None,
) -> Response:
    """Per pipeline rank: weights, gradients, optimizer states, activations, buffers and what the
    allocator and CUDA add, at the moment of a step that needs most. A job that fits no card is
    answered like any other.
    """
    asked = await asked_of(request, question, Job)
    find = await look_up(request, [asked.job.model], hf_token)
    summary = None if _is_json_named(request.headers.get("accept", "")) else options.summary
    wanted = EstimateWanted(options.activations, options.replay, summary)
    reply = estimate_at_once(asked, find, wanted)
    if reply is not None:
        reply = checked(request, reply)
    else:
        lane = lane_of(size_of([asked.job], find, replay=options.replay))
        reply = await reply_from(request, lane, estimate_reply, asked, find, wanted)
    return await remembered(request, reply, asked.job.model, find)


def _is_json_named(accept: str) -> bool:
    """Whether an Accept header names JSON, and text not before it."""
    weights: dict[str, float] = {}
    for each in accept.lower().split(","):
        weight = QUALITY.search(each)
        weights[each.partition(";")[0].strip()] = float(weight[1]) if weight else 1.0
    named = [each for each in weights if each in (JSON, TEXT) and weights[each]]
    return bool(named) and max(named, key=weights.__getitem__) == JSON


@router.post(
    "/estimate:batch",
    operation_id="estimateBatch",
    summary="Estimate up to 64 jobs",
    response_model=Batch,
    response_description="For each job, in order, its estimate or a problem in its place.",
    responses=problem_responses(*BODY_PROBLEMS),
)
async def batch(
    request: Request,
    question: Annotated[BatchRequest, Body(openapi_examples=BATCH_EXAMPLES)],
    options: Annotated[Options, Query()],
    hf_token: HfToken = None,
) -> Response:
    """Each job is answered as if it were sent alone. One that is refused spoils no other; the
    pointers of its problem lead into that job. Who accepts application/x-ndjson is sent a line of
    JSON for each job, an entry of `jobs`, as soon as it is estimated.
    """
    asked = await opened(request, question, read_batch)
    jobs = jobs_of(asked)
    find = await look_up(request, [each.model for each in jobs], hf_token)
    wanted = EstimateWanted(options.activations, options.replay)
    if LINES in request.headers.get("accept", ""):
        return StreamingResponse(_lines(request, asked, find, wanted), media_type=LINES)
    lane = await lane_for(request, jobs, find, replay=options.replay)
    return sent(await reply_from(request, lane, batch_reply, asked, find, wanted))


async def _lines(
    request: Request, opened: Opened, find: Find, wanted: EstimateWanted
) -> AsyncIterator[bytes]:
    """The entry of each job as a line, in the order of the request. What one job is refused for
    stands in its place; once the time is up that holds for all that are left.
    """
    deadlines: Deadlines = request.app.state.deadlines
    due = asyncio.get_running_loop().time() + STREAM_SECONDS
    for name, asked in opened.items():
        try:
            with request.app.state.admission:
                async with deadlines.within(due - asyncio.get_running_loop().time()):
                    lane = lane_of(size_of(jobs_of({name: asked}), find, replay=wanted.replay))
                    reply = await reply_from(request, lane, line_reply, name, asked, find, wanted)
            yield reply.document
        except ProblemError as error:
            yield line_of(EstimatedJob(name, None, error.problem))
        except DeadlinePassedError:
            late = problem(TIMED_OUT, f"there was no answer within {STREAM_SECONDS} s")
            yield line_of(EstimatedJob(name, None, late))

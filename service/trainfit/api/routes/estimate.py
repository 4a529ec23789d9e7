"""POST /v1/estimate and /v1/estimate:batch: the memory that jobs need."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from trainfit.answer import EstimateAnswer, answer
from trainfit.api.answers import Answer, RememberingRoute, remember, signed
from trainfit.api.asked import asked_of
from trainfit.api.examples import BATCH_EXAMPLES, ESTIMATE_EXAMPLES
from trainfit.api.failures import ProblemError
from trainfit.api.json_body import JsonRequest
from trainfit.api.metrics import metrics_of
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import SIGNED, problem_responses
from trainfit.api.problems import BODY_PROBLEMS, JOB_PROBLEMS, Problem
from trainfit.api.several import Batch, estimate_batch, models_of, read_batch
from trainfit.specs.job import Job
from trainfit.specs.launch import JobOrLaunch
from trainfit.specs.several import BatchRequest
from trainfit.wire import to_json

router = APIRouter(prefix="/v1", tags=["estimates"], route_class=RememberingRoute)


class EstimateOptions(BaseModel):
    """What is asked for beside the job."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    activations: bool = Field(
        True, description="false: model states only, without activations and workspaces."
    )


@router.post(
    "/estimate",
    operation_id="estimate",
    summary="Estimate the memory of every pipeline rank",
    response_model=EstimateAnswer,
    response_description="The memory of every pipeline rank and what it is made of.",
    responses=SIGNED | problem_responses(*JOB_PROBLEMS),
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
    job = asked.job
    find = await look_up(request, [job.model], hf_token)
    result = asked.answered(
        lambda job, reading: answer(
            job, activations=options.activations, find=find, reading=reading
        )
    )
    metrics = metrics_of(request)
    metrics.job_asked(job, result, activations=options.activations)
    if isinstance(result, Problem):
        raise ProblemError(result)
    peak = result.binding.device_bytes.expected if options.activations else None
    source = find(job.model).source
    count = metrics.repeating(job.framework.name, peak)
    response = signed(to_json(result), result.request_digest)
    await remember(request, Answer(response, job.model, source, count))
    return response


@router.post(
    "/estimate:batch",
    operation_id="estimateBatch",
    summary="Estimate up to 64 jobs",
    response_description="For each job, in order, its estimate or a problem in its place.",
    responses=problem_responses(*BODY_PROBLEMS),
)
async def batch(
    request: Request,
    jobs: Annotated[BatchRequest, Body(openapi_examples=BATCH_EXAMPLES)],
    options: Annotated[EstimateOptions, Query()],
    hf_token: HfToken = None,
) -> Batch:
    """Each job is answered as if it were sent alone. One that is refused spoils no other; the
    pointers of its problem lead into that job.
    """
    opened = await run_in_threadpool(read_batch, jobs)
    find = await look_up(request, models_of(opened), hf_token)
    told = partial(metrics_of(request).job_asked, activations=options.activations)
    # In a thread, so that the service answers others meanwhile.
    return await run_in_threadpool(
        estimate_batch, opened, told, activations=options.activations, find=find
    )

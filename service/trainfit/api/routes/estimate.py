"""POST /v1/estimate: the memory that a job needs."""

from typing import Annotated

from fastapi import APIRouter, Body, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from trainfit.answer import answer
from trainfit.api.examples import ESTIMATE_EXAMPLES
from trainfit.api.failures import ProblemError
from trainfit.api.json_body import JsonRoute
from trainfit.api.metrics import metrics_of
from trainfit.api.openapi import problem_responses
from trainfit.api.problems import ANSWER_ERRORS, JOB_PROBLEMS, problem_of
from trainfit.estimator.results import Estimate
from trainfit.specs.job import Job

router = APIRouter(prefix="/v1", tags=["estimates"], route_class=JsonRoute)


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
    response_description="The memory of every pipeline rank and what it is made of.",
    responses=problem_responses(*JOB_PROBLEMS),
)
async def estimate(
    request: Request,
    job: Annotated[Job, Body(openapi_examples=ESTIMATE_EXAMPLES)],
    options: Annotated[EstimateOptions, Query()],
) -> Estimate:
    """Per pipeline rank: weights, gradients, optimizer states, activations, buffers and what the
    allocator and CUDA add, at the moment of a step that needs most. A job that fits no card is
    answered like any other.
    """
    metrics = metrics_of(request)
    try:
        result = answer(job, activations=options.activations)
    except ANSWER_ERRORS as error:
        problem = problem_of(error, job)
        metrics.job_refused(job, problem)
        raise ProblemError(problem) from error
    metrics.job_answered(job, result, activations=options.activations)
    return result

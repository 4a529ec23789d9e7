"""POST /v1/measurements:from-logs: what runs say of their memory and speed."""

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from trainfit.api.examples import LOG_EXAMPLES
from trainfit.api.json_body import JsonRoute
from trainfit.api.kinds import BODY_PROBLEMS
from trainfit.api.openapi import problem_responses
from trainfit.api.replies import measurements_reply
from trainfit.api.work import reply_from, sent
from trainfit.measurements.measurement import Measurements
from trainfit.specs.artifacts import Artifacts

router = APIRouter(prefix="/v1", tags=["measurements"], route_class=JsonRoute)


@router.post(
    "/measurements:from-logs",
    operation_id="measurementsFromLogs",
    summary="Read what runs have printed of their memory and speed",
    response_model=Measurements,
    response_description="Every figure with its counter, unit, rank, step and line.",
    responses=problem_responses(*BODY_PROBLEMS),
)
async def measurements_from_logs(
    request: Request, question: Annotated[Artifacts, Body(openapi_examples=LOG_EXAMPLES)]
) -> Response:
    """Lines of Megatron-LM, Megatron-Bridge, Primus, torchtitan, torchtune, axolotl, nanotron,
    DeepSpeed, verl, ms-swift, Trainer and Liger's callback of it, errors of a memory that is full,
    memory_summary(), memory_stats(), nvidia-smi and DCGM. What speaks of memory and was not read is
    listed.
    """
    return sent(await reply_from(request, "reading", measurements_reply, question))

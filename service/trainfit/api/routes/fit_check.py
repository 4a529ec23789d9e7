"""POST /v1/fit-check: whether a job fits its card."""

from typing import Annotated

from fastapi import APIRouter, Body, Response

from trainfit.api.answers import RememberingRoute, remembered
from trainfit.api.asked import asked_of
from trainfit.api.cost import is_checked_at_once, lane_of_check, size_of
from trainfit.api.examples import FIT_CHECK_EXAMPLES
from trainfit.api.json_body import JsonRequest
from trainfit.api.kinds import JOB_PROBLEMS
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import SIGNED, problem_responses
from trainfit.api.replies import fit_check_reply
from trainfit.api.work import checked, reply_from
from trainfit.questions.fit_check import FitCheckAnswer
from trainfit.specs.launch import FitCheckOrLaunch
from trainfit.specs.policy import FitCheckRequest

router = APIRouter(prefix="/v1", tags=["decisions"], route_class=RememberingRoute)


@router.post(
    "/fit-check",
    operation_id="fitCheck",
    summary="Check whether a job fits its card, and what would help",
    response_model=FitCheckAnswer,
    response_description="The verdict, with the margin of every stage and what it rests on.",
    responses=SIGNED | problem_responses(*JOB_PROBLEMS),
)
async def fit_check(
    request: JsonRequest,
    question: Annotated[
        FitCheckOrLaunch, Body(title="FitCheckOrLaunch", openapi_examples=FIT_CHECK_EXAMPLES)
    ],
    hf_token: HfToken = None,
) -> Response:
    """fits: even the high bound of every stage leaves the headroom free of what is usable of the
    card. does_not_fit: the low bound of some stage exceeds it. tight: between the two. unknown:
    something that changes memory is not modelled, and is named. Each is answered with status 200.
    """
    asked = await asked_of(request, question, FitCheckRequest)
    find = await look_up(request, [asked.job.model], hf_token)
    size = size_of([asked.job], find, replay=asked.job.replay)
    if asked.reading is None and is_checked_at_once(size, asked.job):
        reply = checked(request, fit_check_reply(asked, find))
    else:
        lane = lane_of_check(size, asked.job)
        reply = await reply_from(request, lane, fit_check_reply, asked, find)
    return await remembered(request, reply, asked.job.model, find)

"""POST /v1/compare: jobs side by side."""

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from trainfit.api.examples import COMPARE_EXAMPLES
from trainfit.api.json_body import JsonRoute
from trainfit.api.kinds import BODY_PROBLEMS
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import problem_responses
from trainfit.api.replies import comparison_reply
from trainfit.api.work import lane_for, opened, reply_from, sent
from trainfit.questions.compare import SideBySide, read_comparison
from trainfit.questions.several import jobs_of
from trainfit.specs.several import CompareRequest

router = APIRouter(prefix="/v1", tags=["decisions"], route_class=JsonRoute)


@router.post(
    "/compare",
    operation_id="compare",
    summary="Compare up to 64 jobs, or changes to one job, with a baseline",
    response_model=SideBySide,
    response_description="For each job, in order, its place among the others or a problem.",
    responses=problem_responses(*BODY_PROBLEMS),
)
async def compare(
    request: Request,
    question: Annotated[CompareRequest, Body(openapi_examples=COMPARE_EXAMPLES)],
    hf_token: HfToken = None,
) -> Response:
    """Per stage and component, how many bytes more or less than the baseline; the verdict where a
    job names a card; and which jobs need less than which everywhere. One that is refused spoils no
    other; the pointers of its problem lead into that job, or into its change.
    """
    asked = await opened(request, question, read_comparison)
    jobs = jobs_of(asked)
    find = await look_up(request, [each.model for each in jobs], hf_token)
    lane = await lane_for(request, jobs, find, replay=question.replay)
    return sent(await reply_from(request, lane, comparison_reply, question, asked, find))

"""POST /v1/compare: jobs side by side."""

from typing import Annotated

from fastapi import APIRouter, Body, Request
from fastapi.concurrency import run_in_threadpool

from trainfit.api.examples import COMPARE_EXAMPLES
from trainfit.api.json_body import JsonRoute
from trainfit.api.metrics import metrics_of
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import problem_responses
from trainfit.api.problems import BODY_PROBLEMS
from trainfit.api.several import SideBySide, compare_jobs, models_of, read_comparison
from trainfit.specs.several import CompareRequest

router = APIRouter(prefix="/v1", tags=["decisions"], route_class=JsonRoute)


@router.post(
    "/compare",
    operation_id="compare",
    summary="Compare up to 64 jobs, or changes to one job, with a baseline",
    response_description="For each job, in order, its place among the others or a problem.",
    responses=problem_responses(*BODY_PROBLEMS),
)
async def compare(
    request: Request,
    question: Annotated[CompareRequest, Body(openapi_examples=COMPARE_EXAMPLES)],
    hf_token: HfToken = None,
) -> SideBySide:
    """Per stage and component, how many bytes more or less than the baseline; the verdict where a
    job names a card; and which jobs need less than which everywhere. One that is refused spoils no
    other; the pointers of its problem lead into that job, or into its change.
    """
    # In threads, so that the service answers others meanwhile.
    opened = await run_in_threadpool(read_comparison, question)
    find = await look_up(request, models_of(opened), hf_token)
    told = metrics_of(request).job_asked
    return await run_in_threadpool(compare_jobs, question, opened, told, find=find)

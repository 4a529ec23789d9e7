"""POST /v1/reconcile: what a run took, beside what was predicted."""

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from trainfit.api.asked import asked_of
from trainfit.api.examples import RECONCILE_EXAMPLES
from trainfit.api.json_body import JsonRoute
from trainfit.api.kinds import JOB_PROBLEMS
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import SIGNED, problem_responses
from trainfit.api.replies import reconcile_reply
from trainfit.api.work import reply_from, sent
from trainfit.questions.reconcile import ReconcileAnswer
from trainfit.specs.reconcile import ReconcileOrLaunch, ReconcileRequest

router = APIRouter(prefix="/v1", tags=["measurements"], route_class=JsonRoute)


@router.post(
    "/reconcile",
    operation_id="reconcile",
    summary="Put what a run took beside what was predicted",
    response_model=ReconcileAnswer,
    response_description="Every figure beside its bounds, what explains them, and what to do.",
    responses=SIGNED | problem_responses(*JOB_PROBLEMS),
)
async def reconcile(
    request: Request,
    question: Annotated[
        ReconcileOrLaunch, Body(title="ReconcileOrLaunch", openapi_examples=RECONCILE_EXAMPLES)
    ],
    hf_token: HfToken = None,
) -> Response:
    """Logs, errors of a memory that is full, or figures that were read of them, in `run`, beside
    the job or the launch that they are of. Where they are not as expected, the job is priced with
    one thing other than it says, and what comes near is offered as an explanation.
    """
    asked = await asked_of(request, question, ReconcileRequest)
    find = await look_up(request, [asked.job.model], hf_token)
    return sent(await reply_from(request, "pricing", reconcile_reply, asked, find))

"""POST /v1/reconcile and /v1/calibrations:fit: what runs took, beside what was predicted, and for
the next one.
"""

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from trainfit.api.asked import asked_of
from trainfit.api.examples import CALIBRATION_EXAMPLES, RECONCILE_EXAMPLES
from trainfit.api.failures import ProblemError
from trainfit.api.json_body import JsonRoute
from trainfit.api.kinds import JOB_PROBLEMS
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import SIGNED, problem_responses
from trainfit.api.replies import calibration_reply, reconcile_reply
from trainfit.api.work import reply_from, sent
from trainfit.questions.calibration import FittedCalibration
from trainfit.questions.problems import within
from trainfit.questions.reconcile import ReconcileAnswer
from trainfit.specs.reconcile import CalibrationRequest, ReconcileOrLaunch, ReconcileRequest

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


@router.post(
    "/calibrations:fit",
    operation_id="fitCalibration",
    summary="Fit what runs of a cluster took beyond their tensors",
    response_model=FittedCalibration,
    response_description="What to send as `calibration` with the next job of that cluster.",
    responses=problem_responses(*JOB_PROBLEMS),
)
async def fit(
    request: Request,
    question: Annotated[CalibrationRequest, Body(openapi_examples=CALIBRATION_EXAMPLES)],
    hf_token: HfToken = None,
) -> Response:
    """Runs of one card, framework and allocator, each as POST /v1/reconcile takes it, tell what the
    context and communicators take there, and how much more is reserved than allocated. Nothing is
    fitted to tensors.
    """
    runs = []
    for number, each in enumerate(question.runs):
        try:
            runs.append(await asked_of(request, each, ReconcileRequest))
        except ProblemError as error:
            raise ProblemError(within(f"/runs/{number}", error.problem)) from None
    find = await look_up(request, [each.job.model for each in runs], hf_token)
    return sent(await reply_from(request, "pricing", calibration_reply, question, runs, find))

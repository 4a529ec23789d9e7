"""POST /v1/admission and /v1/admission/enforce: jobs on their way into a Kubernetes cluster."""

import re
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Body, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.requests import ClientDisconnect

from trainfit.api.cost import lane_of_check, size_of
from trainfit.api.deadline import DeadlinePassedError, Deadlines
from trainfit.api.examples import ADMISSION_EXAMPLES
from trainfit.api.failures import ProblemError
from trainfit.api.json_body import JsonRequest, JsonRoute
from trainfit.api.kinds import INVALID_REVIEW, REVIEW_PROBLEMS
from trainfit.api.kubernetes.review import AdmissionReview, AdmissionReviewed
from trainfit.api.kubernetes.reviewing import Decision, asking_of, decide, undecided
from trainfit.api.metrics import metrics_of
from trainfit.api.models import known_model
from trainfit.api.openapi import problem_responses
from trainfit.api.settings import ServiceSettings
from trainfit.api.work import in_worker
from trainfit.questions.invalid_fields import invalid_fields
from trainfit.questions.kinds import MAX_ERRORS
from trainfit.questions.problems import problem, summary

MAX_REVIEW_VALUES = 100_000
"""An object has managed fields, scripts and environments, none of which is checked."""

TIMEOUT = re.compile(r"(\d{1,4}(?:\.\d{1,9})?)s")
API_SERVER_SECONDS = 10.0
"""How long an API server waits unless the webhook's configuration says otherwise."""
WAITED_FOR = 0.8
"""The share of that time in which an object is decided."""

log = structlog.get_logger("trainfit")


class ReviewRequest(JsonRequest):
    """A request whose body holds an object of Kubernetes."""

    max_values = MAX_REVIEW_VALUES


class ReviewRoute(JsonRoute):
    """A route that takes an AdmissionReview; anything else is no question that could be answered,
    since an answer repeats its uid.
    """

    request_class = ReviewRequest
    ignores_query = True  # the API server sends its time limit

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_review(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                within = [{**each, "loc": each["loc"][1:]} for each in error.errors()[:MAX_ERRORS]]
                findings = invalid_fields(within, AdmissionReview)
                refusal = problem(INVALID_REVIEW, summary(findings), findings)
                raise ProblemError(refusal) from None

        return handle_review


Review = Annotated[AdmissionReview, Body(openapi_examples=ADMISSION_EXAMPLES)]

router = APIRouter(
    prefix="/v1",
    tags=["admission"],
    route_class=ReviewRoute,
    responses=problem_responses(*REVIEW_PROBLEMS),
)


@router.post(
    "/admission",
    operation_id="admission",
    summary="Warn of a Kubernetes job that does not fit",
    response_description="The object is allowed, with warnings where its job does not simply fit.",
)
async def admission(request: Request, review: Review) -> AdmissionReviewed:
    """Answers an AdmissionReview of a validating webhook. The job stands in the annotation
    trainfit.dev/job of the object; without it, the object passes in silence. What cannot be
    checked passes with a warning.
    """
    return await _reviewed(request, review, enforce=False)


# A path of its own: Kubernetes allows no query in the address of a webhook.
@router.post(
    "/admission/enforce",
    operation_id="enforceAdmission",
    summary="Refuse a Kubernetes job that does not fit",
    response_description="The object is refused where its job certainly does not fit.",
)
async def enforce_admission(request: Request, review: Review) -> AdmissionReviewed:
    """Refuses an object whose job does not fit. With the annotation trainfit.dev/fail-on: tight, so
    is one whose job may not fit.
    """
    return await _reviewed(request, review, enforce=True)


async def _reviewed(
    request: Request, review: AdmissionReview, *, enforce: bool
) -> AdmissionReviewed:
    metrics = metrics_of(request)
    decision = await _decision(request, review, enforce=enforce)
    if decision.tally is not None:
        metrics.job_asked(decision.tally)
    metrics.object_reviewed(decision.outcome, allowed=decision.refusal is None)
    return decision.answer(review.request.uid)


async def _decision(request: Request, review: AdmissionReview, *, enforce: bool) -> Decision:
    """The decision in the time that the API server has; otherwise none, which lets the object
    pass.
    """
    seconds = _seconds_of(request)
    deadlines: Deadlines = request.app.state.deadlines
    try:
        async with deadlines.within(seconds):
            asking = await in_worker(request, "quick", asking_of, review.request)
            if isinstance(asking, Decision):
                return asking
            find = await known_model(request, asking.question.request.model)
            checked = asking.question.request
            lane = lane_of_check(size_of([checked], find), checked)
            return await in_worker(request, lane, decide, asking, find, enforce)
    except DeadlinePassedError:
        return undecided(f"there was no answer within {seconds:g} s")
    except ProblemError as error:
        return undecided(error.problem.detail)
    except Exception as error:
        if isinstance(error, ClientDisconnect):
            raise
        request_id = request.state.request_id
        log.exception("internal error", request_id=request_id)
        return undecided(f"an internal error, in the service's log as request {request_id}")


def _seconds_of(request: Request) -> float:
    """Most of the time that the API server waits, which it says in the query, so that the answer
    is there before.
    """
    said = TIMEOUT.fullmatch(request.query_params.get("timeout", ""))
    settings: ServiceSettings = request.app.state.settings
    waits = float(said[1]) if said else API_SERVER_SECONDS
    return WAITED_FOR * min(waits, settings.request_timeout_seconds)

"""POST /v1/admission and /v1/admission/enforce: jobs on their way into a Kubernetes cluster."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Body, Request, Response
from fastapi.exceptions import RequestValidationError

from trainfit.api.examples import ADMISSION_EXAMPLES
from trainfit.api.failures import ProblemError
from trainfit.api.invalid_fields import invalid_fields
from trainfit.api.json_body import JsonRequest, JsonRoute
from trainfit.api.kubernetes.review import AdmissionReview, AdmissionReviewed
from trainfit.api.kubernetes.reviewing import decide, undecided
from trainfit.api.metrics import metrics_of
from trainfit.api.models import known_models
from trainfit.api.openapi import problem_responses
from trainfit.api.problems import INVALID_REVIEW, MAX_ERRORS, REVIEW_PROBLEMS, problem, summary

MAX_REVIEW_VALUES = 100_000
"""An object has managed fields, scripts and environments, none of which is checked."""

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


# Not coroutines: they run in a thread, so that the service answers others meanwhile.
@router.post(
    "/admission",
    operation_id="admission",
    summary="Warn of a Kubernetes job that does not fit",
    response_description="The object is allowed, with warnings where its job does not simply fit.",
)
def admission(request: Request, review: Review) -> AdmissionReviewed:
    """Answers an AdmissionReview of a validating webhook. The job stands in the annotation
    trainfit.dev/job of the object; without it, the object passes in silence. What cannot be
    checked passes with a warning.
    """
    return _reviewed(request, review, enforce=False)


# A path of its own: Kubernetes allows no query in the address of a webhook.
@router.post(
    "/admission/enforce",
    operation_id="enforceAdmission",
    summary="Refuse a Kubernetes job that does not fit",
    response_description="The object is refused where its job certainly does not fit.",
)
def enforce_admission(request: Request, review: Review) -> AdmissionReviewed:
    """The same, but an object whose job does not fit is refused. With the annotation
    trainfit.dev/fail-on: tight, so is one whose job may not fit.
    """
    return _reviewed(request, review, enforce=True)


def _reviewed(request: Request, review: AdmissionReview, *, enforce: bool) -> AdmissionReviewed:
    metrics = metrics_of(request)
    try:
        find = known_models(request)
        decision = decide(review.request, metrics.fit_checked, enforce=enforce, find=find)
    except Exception:
        request_id = request.state.request_id
        log.exception("internal error", request_id=request_id)
        decision = undecided(f"an internal error, in the service's log as request {request_id}")
    metrics.object_reviewed(decision.outcome, allowed=decision.refusal is None)
    return decision.answer(review.request.uid)

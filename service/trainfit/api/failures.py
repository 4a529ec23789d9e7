"""From exceptions to problem responses."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from trainfit.api.kinds import INVALID_PARAMETER, METHOD_NOT_ALLOWED, NOT_FOUND
from trainfit.questions.invalid_fields import invalid_fields
from trainfit.questions.kinds import INTERNAL_ERROR, INVALID_JOB, INVALID_JSON, MAX_ERRORS
from trainfit.questions.problems import Problem, problem, summary
from trainfit.questions.wire import to_json

BY_STATUS = {
    kind.status: kind for kind in (INVALID_JSON, NOT_FOUND, METHOD_NOT_ALLOWED, INTERNAL_ERROR)
}
"""What the framework itself raises."""

INVALID_TOKEN = "header X-HF-Token: must be a token of the Hub, and nothing else"


class ProblemError(HTTPException):
    """A problem on its way to the response."""

    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem.status, problem.detail, headers)
        self.problem = problem


class ProblemResponse(Response):
    """A problem that answers one request."""

    media_type = "application/problem+json"

    def __init__(
        self, request: Request, problem: Problem, headers: Mapping[str, str] | None = None
    ) -> None:
        instance = f"urn:request:{request.state.request_id}"
        content = to_json(replace(problem, instance=instance))
        super().__init__(content, problem.status, headers)
        if problem.retry_after_seconds is not None:
            self.headers["retry-after"] = str(problem.retry_after_seconds)


def answer_with_problems(app: FastAPI) -> None:
    """Let every error of the app's routes be answered with a problem."""
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid_request)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, ProblemError):
        return ProblemResponse(request, error.problem, error.headers)
    kind = BY_STATUS.get(error.status_code, INTERNAL_ERROR)
    return ProblemResponse(request, problem(kind, kind.meaning), error.headers)


async def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    route: APIRoute = request.scope["route"]
    errors = error.errors()[:MAX_ERRORS]
    if _about("header", errors):
        return ProblemResponse(request, problem(INVALID_PARAMETER, INVALID_TOKEN))
    if in_query := _about("query", errors):
        (parameters,) = route.dependant.query_params
        first = invalid_fields(in_query, parameters.field_info.annotation)[0]
        detail = f"query parameter {first.pointer[1:]}: {first.message}"
        return ProblemResponse(request, problem(INVALID_PARAMETER, detail))
    assert route.body_field is not None
    findings = invalid_fields(_about("body", errors), route.body_field.field_info.annotation)
    return ProblemResponse(request, problem(INVALID_JOB, summary(findings), findings))


def _about(source: str, errors: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The errors about the query or the body, with locations within it."""
    return [{**each, "loc": each["loc"][1:]} for each in errors if each["loc"][0] == source]

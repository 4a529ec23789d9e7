"""Whom the gate asks: this process, or a service."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError

from trainfit.api.jobs import answered, read_job
from trainfit.api.problems import INTERNAL_ERROR, Problem, problem
from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.lookup import LookUp
from trainfit.fit import FitCheckAnswer, check_fit
from trainfit.specs.policy import FitCheckRequest

Ask = Callable[[Mapping[str, Any]], FitCheckAnswer | Problem]

TIMEOUT_SECONDS = 60


def asking_here(look_up: LookUp) -> Ask:
    """This process as one who is asked."""

    def ask(document: Mapping[str, Any]) -> FitCheckAnswer | Problem:
        request = read_job(document, FitCheckRequest)
        if isinstance(request, Problem):
            return request
        try:
            return answered(request, partial(check_fit, find=look_up([request.model])))
        except RefusedCommandError:
            raise
        except Exception as error:
            # An uncaught one would leave with 1, which means that a job does not fit.
            traceback.print_exc()
            return problem(INTERNAL_ERROR, f"the estimator failed with {type(error).__name__}")

    return ask


def asking(server: str) -> Ask:
    """One who asks the service at this URL, with the key of TRAINFIT_API_KEY where there is one.
    A failure to answer is a problem like any other.
    """
    import httpx

    headers = {b"content-type": b"application/json"}
    if key := os.environ.get("TRAINFIT_API_KEY", "").strip():
        headers[b"authorization"] = f"Bearer {key}".encode()
    url = f"{server.rstrip('/')}/v1/fit-check"

    def ask(document: Mapping[str, Any]) -> FitCheckAnswer | Problem:
        try:
            body = json.dumps(document)
            response = httpx.post(url, content=body, headers=headers, timeout=TIMEOUT_SECONDS)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _unavailable(f"{url}: {str(error) or type(error).__name__}")
        try:
            if response.status_code == 200:
                return _FIT_CHECK.validate_json(response.content)
            return _PROBLEM.validate_json(response.content)
        except ValidationError:
            return _unavailable(f"{url}: answered {response.status_code} in words of its own")

    return ask


def _unavailable(detail: str) -> Problem:
    return Problem("about:blank", "The service gave no answer", 503, detail, None, [])


_FIT_CHECK: TypeAdapter[FitCheckAnswer] = TypeAdapter(FitCheckAnswer)
_PROBLEM: TypeAdapter[Problem] = TypeAdapter(Problem)

"""A service that is asked in the place of this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cyclopts import Parameter
from pydantic import TypeAdapter, ValidationError

from trainfit.cli.errors import RefusedCommandError
from trainfit.questions.problems import Problem

Answer = TypeVar("Answer")

TIMEOUT_SECONDS = 60
NOT_OF_THE_JOB = (401, 403, 404, 405, 408, 429)
"""Statuses below 500 with which a service says nothing of what it was asked."""
UNAVAILABLE = 5
"""Exit code where nobody could answer."""

SERVER = Parameter(
    help="Ask the service at this URL, with the key in TRAINFIT_API_KEY if it needs one. Unset: "
    "this process answers.",
    show_default=False,
    negative=(),
)


def asking(
    server: str, operation: str, kind: type[Answer]
) -> Callable[[Mapping[str, Any]], Answer | Problem]:
    """One who asks an operation of the service at this URL, with the key of TRAINFIT_API_KEY where
    there is one. A failure to answer is a problem like any other. Raises RefusedCommandError where
    it is no URL.
    """
    import httpx

    if not server.startswith(("http://", "https://")):
        raise RefusedCommandError("trainfit: --server: must be an http or https URL")
    headers = {b"content-type": b"application/json"}
    if key := os.environ.get("TRAINFIT_API_KEY", "").strip():
        headers[b"authorization"] = f"Bearer {key}".encode()
    url = f"{server.rstrip('/')}/v1/{operation}"
    answer = TypeAdapter(kind)

    def ask(document: Mapping[str, Any]) -> Answer | Problem:
        try:
            body = json.dumps(document)
            response = httpx.post(url, content=body, headers=headers, timeout=TIMEOUT_SECONDS)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _unavailable(f"{url}: {str(error) or type(error).__name__}")
        try:
            if response.status_code == 200:
                return answer.validate_json(response.content)
            return _PROBLEM.validate_json(response.content)
        except ValidationError:
            return _unavailable(f"{url}: answered {response.status_code} in words of its own")

    return ask


def is_unanswered(problem: Problem) -> bool:
    """Whether nobody could answer, so that nothing is known to be wrong with the question."""
    return problem.status >= 500 or problem.status in NOT_OF_THE_JOB


def _unavailable(detail: str) -> Problem:
    return Problem("about:blank", "The service gave no answer", 503, detail, None, [])


_PROBLEM: TypeAdapter[Problem] = TypeAdapter(Problem)

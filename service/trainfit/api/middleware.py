"""What every request passes through: its id, its record and the headers of its response, and the
last resort for an error that nobody expected.
"""

import re
from collections.abc import Iterable
from random import getrandbits
from time import perf_counter

import structlog
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainfit.api.compression import Compressing, accepts_gzip
from trainfit.api.failures import ProblemResponse
from trainfit.api.logs import OF_REQUEST, log_request
from trainfit.api.metrics import Metrics, closed_method
from trainfit.api.traces import trace_ids
from trainfit.questions.kinds import INTERNAL_ERROR
from trainfit.questions.problems import problem

REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"vary", b"Accept-Encoding"),
)

log = structlog.get_logger("trainfit")


class Requests:
    """Gives every request an id, the caller's own where it is well formed, which its response and
    all that is logged meanwhile have. Its response is compressed where that is accepted, and allows
    a browser nothing, save for a page that has a policy of its own. Requests are counted and
    logged, save those to paths that are no operation of the API.

    One layer for all of this, since each costs every request.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun = perf_counter()
        headers = dict(scope["headers"])
        request_id = _request_id(headers.get(b"x-request-id", b""))
        state = scope.setdefault("state", {})
        state |= {"begun": begun, "request_id": request_id}
        before = OF_REQUEST.set({"request_id": request_id, **trace_ids(scope, headers)})
        if accepts_gzip(headers):
            send = Compressing(send, scope["method"])

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                state["status"] = int(message["status"])
                message["headers"] = _headers(scope, message["headers"])
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        finally:
            self._record(scope, state.get("status", 0), perf_counter() - begun)
            OF_REQUEST.reset(before)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        operation = _operation(scope)
        if operation is None:
            return
        method = closed_method(scope["method"])
        self.metrics.request_answered(operation, method, status, seconds)
        log_request(operation, method, status, seconds, scope["state"].get("caller"))


class LastResort:
    """Logs an unexpected error and answers it with a problem that says nothing about it. That a
    client has hung up is no error, and there is nobody to be answered.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, send)
        except ClientDisconnect:
            log.info("the client has hung up")
        except Exception:
            if scope["type"] != "http" or "status" in scope["state"]:
                raise
            log.exception("internal error")
            unexpected = problem(INTERNAL_ERROR, INTERNAL_ERROR.meaning)
            await ProblemResponse(Request(scope), unexpected)(scope, receive, send)


def _request_id(given: bytes) -> str:
    return given.decode() if REQUEST_ID.fullmatch(given) else f"{getrandbits(128):032x}"


def _headers(scope: Scope, given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a response. Once the service was told to stop it ends the connection, so that
    clients go elsewhere.
    """
    request_id: str = scope["state"]["request_id"]
    headers = [*given, *SAFE_HEADERS, (b"x-request-id", request_id.encode())]
    if POLICY[0] not in dict(headers):
        headers.append(POLICY)
    if scope["app"].state.draining:
        headers.append((b"connection", b"close"))
    return headers


def _operation(scope: Scope) -> str | None:
    """The operation that a request was for, "unmatched", or None for a path outside the API."""
    if "route" in scope:
        operation: str | None = scope["route"].operation_id
        return operation
    return None if "endpoint" in scope else "unmatched"

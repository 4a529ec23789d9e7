"""What every request passes through, outermost first: its id, its record, the headers of its
response, and the last resort for an error that nobody expected.
"""

import re
from random import getrandbits
from time import perf_counter

import structlog
from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, reset_contextvars

from trainfit.api.failures import ProblemResponse
from trainfit.api.metrics import Metrics, closed_method
from trainfit.api.problems import INTERNAL_ERROR, problem
from trainfit.api.traces import trace_ids

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
SAFE_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))

log = structlog.get_logger("trainfit")


class RequestIds:
    """Gives every request an id, the caller's own where it is well formed. Whatever is logged
    meanwhile has it, and the ids of the trace that the request is part of.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else f"{getrandbits(128):032x}"
        scope.setdefault("state", {})["request_id"] = request_id
        bound = bind_contextvars(request_id=request_id, **trace_ids(scope))
        try:
            await self.app(scope, receive, send)
        finally:
            reset_contextvars(**bound)


class RequestRecords:
    """Counts and logs every request, save those to paths that are no operation of the API."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begin = perf_counter()
        status = 0

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_noting_status)
        finally:
            if (operation := _operation(scope)) is not None:
                seconds = perf_counter() - begin
                method = closed_method(scope["method"])
                self.metrics.request_answered(operation, method, status, seconds)
                log.info(
                    "request",
                    operation=operation,
                    method=method,
                    status=status,
                    duration_seconds=round(seconds, 6),
                    **_caller(scope),
                )


class ResponseHeaders:
    """Has every response tell the id of its request, and allow a browser nothing, save for a page
    that has a policy of its own. Once the service was told to stop it ends the connection, so that
    clients go elsewhere.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                request_id: str = scope["state"]["request_id"]
                headers = [*message["headers"], *SAFE_HEADERS]
                headers.append((b"x-request-id", request_id.encode()))
                if not any(name == POLICY[0] for name, _ in headers):
                    headers.append(POLICY)
                if scope["app"].state.draining:
                    headers.append((b"connection", b"close"))
                message["headers"] = headers
            await send(message)

        await self.app(scope, receive, send_with_headers)


class LastResort:
    """Logs an unexpected error and answers it with a problem that says nothing about it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_noting_start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, send_noting_start)
        except Exception:
            if started or scope["type"] != "http":
                raise
            log.exception("internal error")
            unexpected = problem(INTERNAL_ERROR, INTERNAL_ERROR.meaning)
            await ProblemResponse(Request(scope), unexpected)(scope, receive, send)


def _operation(scope: Scope) -> str | None:
    """The operation that a request was for, "unmatched", or None for a path outside the API."""
    if "route" in scope:
        operation: str | None = scope["route"].operation_id
        return operation
    return None if "endpoint" in scope else "unmatched"


def _caller(scope: Scope) -> dict[str, str]:
    """Whose key the request had, where one was needed."""
    return {"caller": scope["state"]["caller"]} if "caller" in scope["state"] else {}

"""POST /mcp: what is asked most, as tools of the Model Context Protocol.

A tool is its operation, asked within the request: by the same body, in the same time, among as many
at once. The SDK of the protocol takes a second to load, in a thread, once someone asks.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Body, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic_core import to_json
from starlette.types import Message, Scope

from trainfit.api.connection import ARRIVED
from trainfit.api.failures import ProblemError
from trainfit.api.json_body import JsonRequest, JsonRoute
from trainfit.api.kinds import INVALID_MESSAGE, ORIGIN_NOT_ALLOWED
from trainfit.api.middleware import LastResort
from trainfit.api.models import TOKEN_HEADER
from trainfit.api.operation import Handler, in_time
from trainfit.api.settings import ServiceSettings
from trainfit.mcp.tools import TOOLS
from trainfit.questions.problems import problem

if TYPE_CHECKING:
    from trainfit.mcp.endpoint import Ask, Endpoint

WANTED = (
    'send one JSON-RPC message, an object with "jsonrpc": "2.0", a method and, unless it is a '
    "notification, an id that is a text or a whole number; batches are not taken"
)
PASSED_ON = (TOKEN_HEADER.lower().encode(),)
"""Headers that are the operation's."""


class McpRoute(JsonRoute):
    """A route whose bodies are bounded like any other's. What takes a while is an operation that
    is asked within, which is let in and answered in time by itself.
    """

    def answering(self) -> Handler:
        return self.reading(APIRoute.get_route_handler(self))


router = APIRouter(route_class=McpRoute, include_in_schema=False)


@router.post("/mcp", operation_id="mcp")
async def mcp(request: JsonRequest, message: Annotated[Any, Body()]) -> Response:
    """A message of an agent: what there is, or a call of a tool."""
    _check_origin(request)
    if not _is_message(message):
        raise ProblemError(problem(INVALID_MESSAGE, WANTED))
    async with in_time(request):
        endpoint = await _endpoint(request.app)
    return endpoint.answer(await request.body())


def _is_message(value: Any) -> bool:
    """Whether a value has the outer form of a request, or of a notification, which has no id."""
    return (
        isinstance(value, dict)
        and value.get("jsonrpc") == "2.0"
        and isinstance(value.get("method"), str)
        and type(value.get("id", 0)) in (int, str)
        and isinstance(value.get("params", {}), dict)
    )


def _check_origin(request: Request) -> None:
    """Refuse a page of another origin, even one whose host name leads here (DNS rebinding)."""
    settings: ServiceSettings = request.app.state.settings
    origin = request.headers.get("origin")
    if origin is not None and not {origin, "*"} & {*settings.cors_origins}:
        detail = "TRAINFIT_CORS_ORIGINS does not name the origin of this page"
        raise ProblemError(problem(ORIGIN_NOT_ALLOWED, detail))


async def _endpoint(app: FastAPI) -> Endpoint:
    """The app's endpoint, loaded when it is first asked for; who hangs up does not end that."""
    if app.state.mcp is None:
        app.state.mcp = asyncio.ensure_future(asyncio.to_thread(_load, app))
    loading: asyncio.Future[Endpoint] = app.state.mcp
    return await asyncio.shield(loading)


def _load(app: FastAPI) -> Endpoint:
    gc.disable()  # to look for garbage among all that is loaded would hold up callers
    try:
        from trainfit.mcp.endpoint import Endpoint

        operations = _operations(app)
        document = get_openapi(title="", version="", routes=[*operations.values()])
        endpoint = Endpoint(document, _asking(operations))
        gc.freeze()  # as all that was loaded before
        return endpoint
    finally:
        gc.enable()


def _operations(app: FastAPI) -> dict[str, JsonRoute]:
    """The operations behind the tools, by their ids."""
    asked = {each.operation_id for each in TOOLS}
    return {
        route.operation_id: route
        for route in app.routes
        if isinstance(route, JsonRoute) and route.operation_id in asked
    }


def _asking(operations: Mapping[str, JsonRoute]) -> Ask:
    """What asks an operation within a request, which was counted and has shown its key."""
    from trainfit.mcp.endpoint import Answered, replayed

    async def ask(
        request: Request, operation_id: str, body: Mapping[str, Any], query: Mapping[str, Any]
    ) -> Answered | None:
        route = operations[operation_id]
        status = 0
        parts = []

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))

        receive = replayed(to_json(body), request.receive)
        await LastResort(route.app)(_scope_of(route, request, query), receive, send)
        return Answered(status, b"".join(parts)) if status else None

    return ask


def _scope_of(route: JsonRoute, request: Request, query: Mapping[str, Any]) -> Scope:
    """The request, as if it had been sent to that operation."""
    passed_on = [each for each in request.scope["headers"] if each[0] in PASSED_ON]
    texts = {name: each if isinstance(each, str) else to_json(each) for name, each in query.items()}
    return {
        **request.scope,
        "route": route,
        "path": route.path,
        "raw_path": route.path.encode(),
        "query_string": urlencode(texts).encode(),
        "headers": [(b"content-type", b"application/json"), *passed_on],
        "state": {**request.scope["state"], ARRIVED: True},
    }

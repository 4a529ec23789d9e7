"""What agents talk to, by the SDK of the protocol: streamable HTTP without sessions, one message a
request and one answer in JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

import trainfit
from trainfit.mcp.tools import INSTRUCTIONS, ListedTool, listed
from trainfit.mcp.words import in_words

MAX_TEXT_BYTES = 1_048_576
"""Of an answer: far more than an agent can read, and written in some milliseconds."""

# Each request would be logged as the begin and the end of a session.
logging.getLogger("mcp").setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Answered:
    """What an operation answers: a status of HTTP, and a JSON document or a problem."""

    status: int
    document: bytes


Ask = Callable[[Request, str, Mapping[str, Any], Mapping[str, Any]], Awaitable[Answered | None]]
"""Asks an operation, within a request, with a body and a query; None once the client is gone."""


class Endpoint:
    """The tools of an API, whose operations are asked by `ask`."""

    def __init__(self, document: Mapping[str, Any], ask: Ask) -> None:
        tools = {each.name: each for each in listed(document)}
        listing = types.ListToolsResult(tools=[_described(each) for each in tools.values()])

        async def list_tools(_: object, __: object) -> types.ListToolsResult:
            return listing

        async def call_tool(
            context: ServerRequestContext[Any], params: types.CallToolRequestParams
        ) -> types.CallToolResult:
            tool = tools.get(params.name)
            if tool is None:
                detail = f"there is no such tool; there are {', '.join(tools)}"
                raise MCPError(types.INVALID_PARAMS, detail)
            given = params.arguments or {}
            query = {name: given[name] for name in given.keys() & tool.query}
            body = {name: given[name] for name in given.keys() - tool.query}
            assert context.request is not None  # over HTTP there is one
            answered = await ask(context.request, tool.operation_id, body, query)
            if answered is None:
                raise MCPError(types.CONNECTION_CLOSED, "the client has hung up")
            return _result(answered)

        self._server = Server(
            "trainfit",
            version=trainfit.__version__,
            title="Trainfit",
            instructions=INSTRUCTIONS,
            get_tool_input_schema=lambda _: None,  # no argument stands in a header
            on_list_tools=list_tools,
            on_call_tool=call_tool,
        )

    def answer(self, body: bytes) -> Response:
        """What answers a message of these bytes."""
        return Conversation(self._server, body)


class Conversation(Response):
    """A message and its answer; nothing of it is left behind."""

    def __init__(self, server: Server[Any], body: bytes) -> None:
        super().__init__()
        self._server = server
        self._message = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(
            self._server,
            json_response=True,
            stateless=True,
            max_request_body_size=max(len(self._message), 1),
        )
        async with manager.run():
            await manager.handle_request(scope, replayed(self._message, receive), send)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Receives a body that has arrived, and then what `receive` does."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Any:
        return messages.pop() if messages else await receive()

    return receive_again


def _described(tool: ListedTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=types.ToolAnnotations(
            read_only_hint=True, idempotent_hint=True, open_world_hint=False
        ),
    )


def _result(answered: Answered) -> types.CallToolResult:
    if answered.status != 200:
        return _said(in_words(answered.document), is_error=True)
    if len(answered.document) > MAX_TEXT_BYTES:
        return _said(
            f"The answer has {len(answered.document)} bytes, and a tool tells at most "
            f"{MAX_TEXT_BYTES}: ask for less at once.",
            is_error=True,
        )
    return _said(answered.document.decode())


def _said(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)

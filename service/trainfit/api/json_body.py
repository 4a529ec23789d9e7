"""How a JSON body is read: of the right media type, in time, bounded and strict."""

from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from fastapi import Request, Response

from trainfit.api.deadline import DeadlinePassedError, within
from trainfit.api.failures import ProblemError
from trainfit.api.operation import Operation
from trainfit.api.problems import SLOW_BODY, TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, problem
from trainfit.api.settings import Settings
from trainfit.api.strict_json import MAX_VALUES, JsonError, parse_json


class JsonRequest(Request):
    """A request whose body is one JSON document of bounded size."""

    max_values = MAX_VALUES

    async def stream(self) -> AsyncGenerator[bytes, None]:
        settings: Settings = self.app.state.settings
        limit = settings.max_body_bytes
        announced = self.headers.get("content-length", "")
        size = int(announced) if announced.isdecimal() else 0
        _check_size(size, limit)
        received = 0
        async for part in super().stream():
            received += len(part)
            _check_size(received, limit)
            yield part

    async def body(self) -> bytes:
        settings: Settings = self.app.state.settings
        seconds = settings.body_timeout_seconds
        try:
            async with within(seconds):
                # FastAPI never parses an empty body; a blank one is told that it is no JSON.
                return await super().body() or b"\n"
        except DeadlinePassedError:
            detail = f"the body did not arrive within {seconds:g} s"
            raise ProblemError(problem(SLOW_BODY, detail), {"Connection": "close"}) from None

    async def json(self) -> Any:
        try:
            return parse_json(await self.body(), self.max_values)
        except JsonError as error:
            raise ProblemError(error.problem) from None


class JsonRoute(Operation):
    """An operation that takes application/json and nothing else."""

    request_class = JsonRequest

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            media_type = request.headers.get("content-type", "").partition(";")[0].strip()
            if media_type.lower() != "application/json" or "content-encoding" in request.headers:
                detail = "send the body as Content-Type: application/json, without Content-Encoding"
                raise ProblemError(problem(UNSUPPORTED_MEDIA_TYPE, detail))
            return await handle(self.request_class(request.scope, request.receive))

        return handle_json


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise ProblemError(problem(TOO_LARGE, f"the body may have at most {limit} bytes"))

"""How a JSON body is read: of the right media type, in time, bounded and strict."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from trainfit.api.admission import RETRY_SECONDS, Admission
from trainfit.api.connection import ARRIVED
from trainfit.api.deadline import DeadlinePassedError, Deadlines
from trainfit.api.failures import ProblemError
from trainfit.api.kinds import SLOW_BODY, TIMED_OUT, TOO_LARGE, UNSUPPORTED_MEDIA_TYPE
from trainfit.api.operation import Handler, OperationRoute
from trainfit.api.settings import ServiceSettings
from trainfit.api.strict_json import MAX_VALUES, JsonError, parse_json
from trainfit.questions.problems import problem


class JsonRequest(Request):
    """A request whose body is one JSON document of bounded size, which arrives in bounded time."""

    max_values = MAX_VALUES

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            settings: ServiceSettings = self.app.state.settings
            limit = settings.max_body_bytes
            if ARRIVED in self.scope["state"]:
                body = await self._arriving(limit, int)
            else:
                seconds = min(settings.body_timeout_seconds, settings.request_timeout_seconds)
                admission: Admission = self.app.state.admission
                with admission.arriving() as hold:
                    body = await self._in_time(self._arriving(limit, hold), seconds)
            # FastAPI never parses an empty body; a blank one is refused as no JSON.
            self._body = body or b"\n"
        return self._body

    async def _arriving(self, limit: int, hold: Callable[[int], object]) -> bytes:
        """The whole body, counted as it arrives; `hold` is called with each part's size."""
        announced = self.headers.get("content-length", "")
        _check_size(int(announced) if announced.isdecimal() else 0, limit)
        body = bytearray()
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part = message.get("body", b"")
            hold(len(part))
            body += part
            _check_size(len(body), limit)
            if not message.get("more_body", False):
                return bytes(body)

    async def _in_time(self, arriving: Awaitable[bytes], seconds: float) -> bytes:
        deadlines: Deadlines = self.app.state.deadlines
        try:
            async with deadlines.within(seconds):
                return await arriving
        except DeadlinePassedError:
            if deadlines.are_brought_forward:
                stops = problem(TIMED_OUT, "the service stops", retry_after_seconds=RETRY_SECONDS)
                raise ProblemError(stops) from None
            detail = f"the body did not arrive within {seconds:g} s"
            raise ProblemError(problem(SLOW_BODY, detail)) from None

    async def json(self) -> Any:
        try:
            return parse_json(await self.body(), self.max_values)
        except JsonError as error:
            raise ProblemError(error.problem) from None


class JsonRoute(OperationRoute):
    """An operation that takes application/json and nothing else."""

    request_class = JsonRequest

    def answering(self) -> Handler:
        """What answers a request once its body is there."""
        read_and_answer = super().answering()

        async def answer(request: JsonRequest) -> Response:
            known = self.known(request.scope, await request.body())
            return known or await read_and_answer(request)

        return self.reading(answer)

    def reading(self, answer: Callable[[JsonRequest], Awaitable[Response]]) -> Handler:
        """What answers a request that has a body of JSON, once that is there."""

        async def read(request: Request) -> Response:
            json_request = self.request_class(request.scope, request.receive)
            if not is_json(dict(request.scope["headers"])):
                detail = "send the body as Content-Type: application/json, without Content-Encoding"
                raise ProblemError(problem(UNSUPPORTED_MEDIA_TYPE, detail))
            await json_request.body()
            return await answer(json_request)

        return read

    def known(self, _: Scope, __: bytes) -> Response | None:
        """The answer to a body that need not be read; here every one must."""
        return None


def is_json(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request with these headers says that its body is JSON, as it is."""
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip()
    return media_type.lower() == b"application/json" and b"content-encoding" not in headers


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise ProblemError(problem(TOO_LARGE, f"the body may have at most {limit} bytes"))

"""What a request passes on its way to an operation, before anything of its body is read."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from ipaddress import IPv6Network, ip_address
from time import perf_counter
from typing import Any

from fastapi import Request, Response
from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute
from fastapi.utils import create_model_field
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from trainfit.api.admission import RETRY_SECONDS
from trainfit.api.api_keys import owner
from trainfit.api.deadline import DeadlinePassedError, Deadlines
from trainfit.api.failures import ProblemError
from trainfit.api.kinds import INVALID_PARAMETER, RATE_LIMITED, TIMED_OUT, UNAUTHENTICATED
from trainfit.api.rate_limit import RateLimit
from trainfit.api.settings import ServiceSettings
from trainfit.questions.problems import problem

NO_QUERY = "the operation takes no query parameters"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class OperationRoute(APIRoute):
    """A route of the API: for callers with a key, where keys are set, as often as each may ask, as
    many at once as the service takes, and answered in time. A query is refused where it takes none.
    """

    ignores_query = False

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.answers = options.get("response_model")
        """What the document says of answers that are bytes by then; of others FastAPI knows it."""
        if isinstance(self.answers, DefaultPlaceholder):
            self.answers = None
        else:
            options["response_model"] = None
        super().__init__(path, endpoint, **options)

    def describe(self) -> None:
        """Work out the schema of answers: no other of an operation's parts takes as long."""
        if self.answers is not None and self.response_field is None:
            name = f"Response_{self.unique_id}"
            self.response_field = create_model_field(
                name=name, type_=self.answers, mode="serialization"
            )

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        label = identify(scope)
        limit: RateLimit | None = scope["app"].state.rate_limit
        if limit is not None:
            send = await _taking(limit, label or _address(scope), send)
        await super().handle(scope, receive, send)

    def get_route_handler(self) -> Handler:
        answer = self.answering()
        takes_query = self.ignores_query or bool(self.dependant.query_params)

        async def handle_admitted(request: Request) -> Response:
            if request.scope["query_string"] and not takes_query:
                raise ProblemError(problem(INVALID_PARAMETER, NO_QUERY))
            return await answer(request)

        return handle_admitted

    def answering(self) -> Handler:
        """What answers a request that has arrived, if it is let in, and in time."""
        answer = super().get_route_handler()

        async def answer_in_time(request: Request) -> Response:
            with request.app.state.admission:
                async with in_time(request):
                    return await answer(request)

        return answer_in_time


@asynccontextmanager
async def in_time(request: Request) -> AsyncIterator[None]:
    """Allows what it encloses the time that is left of a request's. Raises ProblemError once that
    is over.
    """
    settings: ServiceSettings = request.app.state.settings
    deadlines: Deadlines = request.app.state.deadlines
    seconds = settings.request_timeout_seconds
    try:
        async with deadlines.within(seconds - (perf_counter() - request.state.begun)):
            yield
    except DeadlinePassedError:
        detail = f"there was no answer within {seconds:g} s"
        late = problem(TIMED_OUT, detail, retry_after_seconds=RETRY_SECONDS)
        raise ProblemError(late) from None


def identify(scope: Scope) -> str | None:
    """Whose key the request has; None where no keys are set.

    Raises ProblemError where keys are set and the request has none of them.
    """
    settings: ServiceSettings = scope["app"].state.settings
    if not settings.api_keys:
        return None
    given = Headers(scope=scope).get("authorization")
    label = owner(given or "", settings.api_keys)
    if label is None:
        challenge = 'Bearer realm="trainfit"' + (', error="invalid_token"' if given else "")
        detail = "the key is not known" if given else "the request has no key"
        raise ProblemError(problem(UNAUTHENTICATED, detail), {"WWW-Authenticate": challenge})
    scope["state"]["caller"] = label
    return label


def _address(scope: Scope) -> str:
    """The client's address; of one in IPv6, the network that a site has for itself. What a proxy
    made up is one client, however many it invents.
    """
    try:
        address = ip_address((scope["client"] or ("",))[0])
    except ValueError:
        return "unknown"
    return str(address if address.version == 4 else IPv6Network((address, 64), strict=False))


async def _taking(limit: RateLimit, caller: str, send: Send) -> Send:
    """Take a request out of the caller's bucket, and let the response tell what is left.

    Raises ProblemError where nothing is.
    """
    allowance = await limit.take(caller)
    headers = limit.headers(allowance)
    if allowance.retry_seconds:
        retry = allowance.retry_seconds
        detail = f"{limit.requests} requests in {limit.window_seconds} s; ask again in {retry} s"
        raise ProblemError(problem(RATE_LIMITED, detail, retry_after_seconds=retry), headers)

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return send_with_headers

"""POST /v1/search: which layout."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from math import inf
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response
from starlette.responses import StreamingResponse

from trainfit.api.asked import asked_of
from trainfit.api.deadline import DeadlinePassedError, Deadlines
from trainfit.api.examples import SEARCH_EXAMPLES
from trainfit.api.failures import ProblemError
from trainfit.api.json_body import JsonRoute
from trainfit.api.kinds import JOB_PROBLEMS, TIMED_OUT
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import SIGNED, problem_responses
from trainfit.api.replies import search_portion, search_reply
from trainfit.api.settings import ServiceSettings
from trainfit.api.work import in_worker, reply_from, sent
from trainfit.decisions.search.search import SearchProgress
from trainfit.questions.dimensions import Find
from trainfit.questions.launches import RequestedJob
from trainfit.questions.problems import Problem, problem
from trainfit.questions.search import SearchAnswer, progress
from trainfit.questions.wire import to_json
from trainfit.specs.search import SearchOrLaunch, SearchRequest

router = APIRouter(prefix="/v1", tags=["decisions"], route_class=JsonRoute)

EVENTS = "text/event-stream"
STREAM_SECONDS = 120
"""For a search whose progress is sent; its caller ends it by hanging up."""
SEARCHING = 0.7
"""The share of the time for an answer that is spent on a search. What was found by then is sent in
the rest, which may begin with a worker that has to start.
"""


@router.post(
    "/search",
    operation_id="search",
    summary="Find the layout that is fastest, takes the fewest GPUs, or leaves most free",
    response_model=SearchAnswer,
    response_description="The best layouts, what they trade, and why the others fell.",
    responses=SIGNED | problem_responses(*JOB_PROBLEMS),
)
async def search(
    request: Request,
    question: Annotated[
        SearchOrLaunch, Body(title="SearchOrLaunch", openapi_examples=SEARCH_EXAMPLES)
    ],
    hf_token: HfToken = None,
) -> Response:
    """Every field that the job gives is kept, and every absent field of the layout is sought. Of a
    launch in its place the task is kept, and the layout but for its overrides is sought. Who
    accepts text/event-stream is sent events: `progress` after each portion of the search, then
    `answer`, the answer in one line of JSON, or `problem`. Hanging up ends the search. Others are
    answered in time: with what was found by then, which `cut` says.
    """
    asked = await asked_of(request, question, SearchRequest)
    find = await look_up(request, [asked.job.model], hf_token)
    if EVENTS in request.headers.get("accept", ""):
        return StreamingResponse(_events(request, asked, find), media_type=EVENTS)
    standing = await _in_time(request, asked, find)
    return sent(await reply_from(request, "pricing", search_reply, asked, standing, find))


async def _in_time(
    request: Request, asked: RequestedJob[SearchRequest], find: Find
) -> SearchProgress:
    """The search at its end, or when its time is up. Raises ProblemError."""
    settings: ServiceSettings = request.app.state.settings
    until = request.state.begun + SEARCHING * settings.request_timeout_seconds
    standing: SearchProgress | None = None
    async for each in _portions(request, asked, find, until):
        standing = each
    assert standing is not None
    return standing


async def _portions(
    request: Request, asked: RequestedJob[SearchRequest], find: Find, until: float = inf
) -> AsyncGenerator[SearchProgress]:
    """The search after each of its portions, each done in a worker. Raises ProblemError."""
    standing: SearchProgress | None = None
    while standing is None or not standing.is_over:
        found = await in_worker(request, "pricing", search_portion, asked, find, standing, until)
        if isinstance(found, Problem):
            raise ProblemError(found)
        standing = found
        yield standing


async def _events(
    request: Request, asked: RequestedJob[SearchRequest], find: Find
) -> AsyncIterator[bytes]:
    deadlines: Deadlines = request.app.state.deadlines
    try:
        with request.app.state.admission:
            async with deadlines.within(STREAM_SECONDS):
                async for standing in _portions(request, asked, find):
                    yield _event("progress", to_json(progress(standing)))
                reply = await reply_from(request, "pricing", search_reply, asked, standing, find)
                yield _event("answer", reply.document)
    except ProblemError as error:
        yield _event("problem", to_json(error.problem))
    except DeadlinePassedError:
        late = problem(TIMED_OUT, f"there was no answer within {STREAM_SECONDS} s")
        yield _event("problem", to_json(late))


def _event(name: str, document: bytes) -> bytes:
    """An event whose data is one line of JSON."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), document)

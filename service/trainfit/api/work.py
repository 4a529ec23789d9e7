"""Where a question is answered: here, where that is known to be little, or else in a worker, which
is killed when the answer is late or its caller is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from typing import TypeVar

import structlog
from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from trainfit.api.cost import Lane, has_launch, lane_of, size_of, too_long
from trainfit.api.failures import ProblemError
from trainfit.api.kinds import TOO_COSTLY
from trainfit.api.metrics import metrics_of
from trainfit.api.replies import Reply, bounded_reply
from trainfit.api.settings import ServiceSettings
from trainfit.api.warming import warm
from trainfit.questions.dimensions import Find
from trainfit.questions.problems import problem
from trainfit.questions.several import Opened
from trainfit.specs.job import Job
from trainfit.specs.several import BatchRequest, CompareRequest
from trainfit.workers.errors import TooMuchWorkError
from trainfit.workers.limits import WorkerLimits
from trainfit.workers.pool import Workers

Result = TypeVar("Result")
Question = TypeVar("Question", BatchRequest, CompareRequest)

LEFT_SECONDS = 1.0
"""For work to end by itself once its caller is gone: to start a process takes nearly as long."""

log = structlog.get_logger("trainfit")


def workers_of(settings: ServiceSettings) -> Workers:
    """The processes of a service with these settings, not yet started."""
    several = max(settings.worker_processes, 1)
    half = ceil(several / 2)
    lanes: dict[str, int] = {"quick": half, "reading": several, "pricing": half}
    limits = WorkerLimits(settings.worker_memory_bytes, settings.worker_cpu_seconds)
    return Workers(lanes, limits, processes=settings.worker_processes > 0, warm=warm)


async def reply_from(
    request: Request, lane: Lane, function: Callable[..., Reply], *args: object
) -> Reply:
    """The reply of a function to these arguments, counted. Raises ProblemError."""
    settings: ServiceSettings = request.app.state.settings
    reply = await in_worker(
        request, lane, bounded_reply, settings.max_answer_bytes, function, *args
    )
    return checked(request, reply)


def checked(request: Request, reply: Reply) -> Reply:
    """A reply that can be sent, counted. Raises ProblemError."""
    settings: ServiceSettings = request.app.state.settings
    reply = reply.at_most(settings.max_answer_bytes)
    metrics = metrics_of(request)
    for tally in reply.tallies:
        metrics.job_asked(tally)
    for residual in reply.residuals:
        metrics.run_compared(residual)
    if reply.launch is not None:
        metrics.launch_asked(reply.launch)
    if reply.problem is not None:
        raise ProblemError(reply.problem)
    return reply


async def opened(
    request: Request, question: Question, read: Callable[[Question], Opened]
) -> Opened:
    """The jobs of a question, read in a worker where one is a launch."""
    if has_launch(question):
        return await in_worker(request, "reading", read, question)
    return read(question)


async def lane_for(
    request: Request, jobs: Sequence[Job], find: Find, *, replay: bool = True
) -> Lane:
    """Where several jobs are answered, their allocators replayed or not, which takes a worker some
    milliseconds each to tell. Raises ProblemError where the answer would be too long.
    """
    settings: ServiceSettings = request.app.state.settings
    size = await in_worker(request, "quick", partial(size_of, replay=replay), jobs, find)
    if (refusal := too_long(size, settings.max_answer_bytes)) is not None:
        raise ProblemError(refusal)
    return lane_of(size)


def sent(reply: Reply) -> Response:
    """The response that carries a reply, with its digest, if it has one, for an ETag."""
    headers = {"etag": f'"{reply.digest}"'} if reply.digest is not None else None
    return Response(reply.document, headers=headers, media_type=reply.media_type)


async def in_worker(
    request: Request, lane: Lane, function: Callable[..., Result], *args: object
) -> Result:
    """What a function returns for these arguments. Raises ProblemError where that takes too much,
    and ClientDisconnect where the caller is gone.
    """
    workers: Workers = request.app.state.workers
    working = asyncio.ensure_future(workers.run(lane, function, *args))
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((working,), timeout=LEFT_SECONDS)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    except TooMuchWorkError:
        log.warning("too costly", operation=request.scope["route"].operation_id)
        settings: ServiceSettings = request.app.state.settings
        detail = (
            f"it takes more than {settings.worker_cpu_seconds} s of processor time or "
            f"{settings.worker_memory_bytes} bytes of memory"
        )
        raise ProblemError(problem(TOO_COSTLY, detail)) from None
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    """Returns when the client has hung up. The body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass

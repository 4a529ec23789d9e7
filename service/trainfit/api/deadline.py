"""When an answer is due. What runs in a thread cannot be stopped from outside, so it looks itself
whether anybody still waits, between one job and the next.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from time import monotonic

_DUE: ContextVar[float] = ContextVar("due", default=float("inf"))


class DeadlinePassedError(Exception):
    """Nobody waits for the answer any more."""


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Allow so much time. Raises DeadlinePassedError once it is over."""
    before = _DUE.set(min(_DUE.get(), monotonic() + seconds))
    try:
        async with asyncio.timeout(seconds) as timeout:
            yield
    except TimeoutError:
        if timeout.expired():
            raise DeadlinePassedError from None
        raise
    finally:
        _DUE.reset(before)


def check_deadline() -> None:
    """Go on, or raise DeadlinePassedError where the time that the request has is over."""
    if monotonic() > _DUE.get():
        raise DeadlinePassedError

"""When an answer is due. What runs in a thread cannot be stopped from outside, so it looks itself
whether anybody still waits, between one job and the next.
"""

import asyncio
from contextvars import ContextVar
from time import monotonic
from types import TracebackType

_DUE: ContextVar[float] = ContextVar("due", default=float("inf"))


class DeadlinePassedError(Exception):
    """Nobody waits for the answer any more."""


class Deadline:
    """Allows so much time for what it encloses. Raises DeadlinePassedError once it is over."""

    __slots__ = ("_before", "_timeout", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def __aenter__(self) -> None:
        self._before = _DUE.set(min(_DUE.get(), monotonic() + self.seconds))
        self._timeout = asyncio.timeout(self.seconds)
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _DUE.reset(self._before)
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise DeadlinePassedError from None


def check_deadline() -> None:
    """Go on, or raise DeadlinePassedError where the time that the request has is over."""
    if monotonic() > _DUE.get():
        raise DeadlinePassedError

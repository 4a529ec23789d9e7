"""When an answer is due. What is late is cancelled, which ends what a worker does for it."""

import asyncio
from types import TracebackType


class DeadlinePassedError(Exception):
    """Nobody waits for the answer any more."""


class Deadlines:
    """The deadlines of the requests under way, which a service that stops brings forward."""

    def __init__(self) -> None:
        self._running: set[asyncio.Timeout] = set()
        self._latest: float | None = None

    @property
    def are_brought_forward(self) -> bool:
        """Whether the service stops."""
        return self._latest is not None

    def within(self, seconds: float) -> "Deadline":
        """Allows so much time for what it encloses, or what is left once the service stops."""
        if self._latest is not None:
            seconds = min(seconds, self._latest - asyncio.get_running_loop().time())
        return Deadline(seconds, self._running)

    def bring_forward(self, seconds: float) -> None:
        """Leave no request more time than this."""
        latest = self._latest = asyncio.get_running_loop().time() + seconds
        for timeout in self._running:
            if timeout.expired():
                continue
            due = timeout.when()
            timeout.reschedule(latest if due is None else min(due, latest))


class Deadline:
    """Allows so much time for what it encloses. Raises DeadlinePassedError once it is over."""

    __slots__ = ("_running", "_seconds", "_timeout")

    def __init__(self, seconds: float, running: set[asyncio.Timeout]) -> None:
        self._seconds = seconds
        self._running = running

    async def __aenter__(self) -> None:
        self._timeout = asyncio.timeout(self._seconds)
        await self._timeout.__aenter__()
        self._running.add(self._timeout)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._running.discard(self._timeout)
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise DeadlinePassedError from None

"""Processes that are kept warm, and killed when nobody waits for what they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, TypeVar

from anyio import BrokenWorkerProcess, CapacityLimiter, to_process, to_thread

from trainfit.workers.errors import FaultError, TooMuchWorkError
from trainfit.workers.limits import Fault, OutOfMemory, WorkerLimits, run_limited

Result = TypeVar("Result")


RETRY_SECONDS = 1.0
START_SECONDS = 5.0
"""A process is started in a tenth of a second, on a very busy machine in more than two."""
KEPT_SECONDS = to_process.WORKER_MAX_IDLE_TIME / 3
"""anyio ends processes that were idle for five minutes."""


def _nothing() -> None:
    """What a worker does that has nothing to load."""


class Workers:
    """Runs functions of modules in processes, in lanes, so that work of one kind does not wait for
    that of another. `lanes` are how many processes each may have busy at once.

    Cancelling `run` kills the process, within START_SECONDS of its start. Without `processes`
    functions run in threads, which nothing ends: for a debugger, and for tests of what is answered.
    """

    def __init__(
        self,
        lanes: Mapping[str, int],
        limits: WorkerLimits,
        *,
        processes: bool = True,
        warm: Callable[[], None] = _nothing,
    ) -> None:
        self._lanes = {name: CapacityLimiter(size) for name, size in lanes.items()}
        self._no_limit = CapacityLimiter(inf)
        self._limits = limits
        self._processes = processes
        self._warm = warm
        self._stopping = False
        self._filling: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    async def run(self, lane: str, function: Callable[..., Result], *args: Any) -> Result:
        """What the function returns for these arguments; it, they and that can be pickled.

        Raises TooMuchWorkError, and FaultError for what the function raises.
        """
        limiter = self._lanes[lane]
        if not self._processes:
            call = partial(function, *args)
            return await to_thread.run_sync(call, abandon_on_cancel=True, limiter=limiter)
        try:
            result = await self._in_process(limiter, function, args)
        except BrokenWorkerProcess:
            self.fill()
            raise TooMuchWorkError from None
        except asyncio.CancelledError:
            self.fill()
            raise
        if isinstance(result, OutOfMemory):
            raise TooMuchWorkError
        if isinstance(result, Fault):
            raise FaultError(result.traceback)
        answer: Result = result
        return answer

    async def begin(self) -> None:
        """Start a process of the first lane, and then all others: each takes a core for a second,
        which the first caller would wait for.
        """
        if self._processes:
            with suppress(TooMuchWorkError, FaultError):
                await self.run(next(iter(self._lanes)), self._warm)
        self.fill()

    def fill(self) -> None:
        """Begin to start the processes that are missing, so that nobody waits for one, and to keep
        them.
        """
        self._ended.set()
        if self._processes and not self._stopping and self._filling is None:
            self._filling = asyncio.create_task(self._fill())

    def stop(self) -> None:
        """Start no more of them."""
        self._stopping = True

    async def aclose(self) -> None:
        """Stop. What runs is killed when the event loop ends."""
        self.stop()
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.gather(self._filling, return_exceptions=True)

    async def _fill(self) -> None:
        """Each idle process takes one of these calls, and each that is missing is started for one:
        when some have ended, soon again when one could not be started, and before anyio takes one
        for idle.
        """
        while not self._stopping:
            self._ended.clear()
            calls = (
                self._in_process(limiter, self._warm, ())
                for limiter in self._lanes.values()
                for _ in range(int(limiter.available_tokens))
            )
            results = await asyncio.gather(*calls, return_exceptions=True)
            failed = any(isinstance(each, BaseException) for each in results)
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS if failed else KEPT_SECONDS):
                    await self._ended.wait()

    async def _in_process(
        self, limiter: CapacityLimiter, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> Any:
        """What the function returns. Whoever cancels this goes at once; the process, which keeps
        its place in the lane, is killed when it has surely been started: anyio loses one whose
        start is cancelled, and that would stay.
        """
        loop, place = asyncio.get_running_loop(), object()
        await limiter.acquire_on_behalf_of(place)
        call = to_process.run_sync(
            run_limited, self._limits, function, args, cancellable=True, limiter=self._no_limit
        )
        running, begun = asyncio.ensure_future(call), loop.time()
        running.add_done_callback(lambda _: limiter.release_on_behalf_of(place))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(lambda _: self.fill())
            loop.call_later(max(0.0, begun + START_SECONDS - loop.time()), running.cancel)
            raise

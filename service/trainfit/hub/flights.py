"""Single flight: what several ask for at once is done once."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Flights(Generic[Result]):
    """Tasks under way by what they are for. They belong to nobody who waits: one who goes away
    leaves them running for the others.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[Result]] = {}

    def start(
        self, key: Hashable, fly: Callable[[], Coroutine[Any, Any, Result]]
    ) -> asyncio.Task[Result]:
        """The task that is under way for this key, or a new one."""
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(fly())
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._landed(key, done))
        return task

    async def join(self, key: Hashable, fly: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """What the flight brings, or the error in which it ends."""
        return await asyncio.shield(self.start(key, fly))

    async def aclose(self) -> None:
        """End all that is under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _landed(self, key: Hashable, task: asyncio.Task[Result]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # nobody may have waited for it

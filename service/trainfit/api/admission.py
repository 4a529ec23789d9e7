"""How many requests are taken at once: beyond that, refusing is kinder than queueing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from trainfit.api.failures import ProblemError
from trainfit.api.kinds import OVERLOADED
from trainfit.questions.problems import problem

RETRY_SECONDS = 1


class Admission:
    """Entered by a request for as long as it is answered. Only the event loop enters and leaves.

    Raises ProblemError on entering where `limit` requests are answered. A request whose body is
    still on its way is no work yet, and keeps nobody out, but all such bodies together take no
    more than `arriving_bytes` of memory.
    """

    def __init__(self, limit: int, arriving_bytes: int) -> None:
        self._limit = limit
        self._answered = 0
        self._arriving = 0
        self._arriving_bytes = 0
        self._max_arriving_bytes = arriving_bytes

    def under_way(self) -> int:
        """How many requests are answered, or have begun to arrive."""
        return self._answered + self._arriving

    @contextmanager
    def arriving(self) -> Iterator[Callable[[int], None]]:
        """Entered while a body arrives. Gives a function for each part's size, which raises
        ProblemError where there is no room for it.
        """
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            if self._arriving_bytes + size > self._max_arriving_bytes:
                raise _overloaded(f"bodies of {self._max_arriving_bytes} bytes are on their way")
            held += size
            self._arriving_bytes += size

        self._arriving += 1
        try:
            yield hold
        finally:
            self._arriving -= 1
            self._arriving_bytes -= held

    def __enter__(self) -> None:
        if self._answered >= self._limit:
            raise _overloaded(f"{self._limit} requests are under way")
        self._answered += 1

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._answered -= 1


def _overloaded(why: str) -> ProblemError:
    detail = f"{why}; ask again in {RETRY_SECONDS} s"
    return ProblemError(problem(OVERLOADED, detail, retry_after_seconds=RETRY_SECONDS))

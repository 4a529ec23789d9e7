"""How many requests are taken at once: beyond that, refusing is kinder than queueing."""

from types import TracebackType

from trainfit.api.failures import ProblemError
from trainfit.api.problems import OVERLOADED, problem

RETRY_SECONDS = 1


class Admission:
    """Entered by a request for as long as it is under way. Only the event loop enters and leaves.

    Raises ProblemError on entering where `limit` requests are under way.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._under_way = 0

    def under_way(self) -> int:
        """How many requests have entered and not left."""
        return self._under_way

    def __enter__(self) -> None:
        if self._under_way >= self._limit:
            detail = f"{self._limit} requests are under way; ask again in {RETRY_SECONDS} s"
            raise ProblemError(problem(OVERLOADED, detail, retry_after_seconds=RETRY_SECONDS))
        self._under_way += 1

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._under_way -= 1

"""A circuit breaker: where the Hub is down, nobody waits to find out once more."""

from collections.abc import Callable
from time import monotonic

from trainfit.hub.errors import UnreachableError

FAILURES = 3
"""Repositories in a row for which there was no answer: one alone may be to blame itself. Without
even a connection the circuit opens at once.
"""
FIRST_SECONDS = 5.0
LONGEST_SECONDS = 60.0


class Circuit:
    """Closed while the Hub answers. Open, it lets nobody through, then one who goes ahead, for
    twice as long after each who fails.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._failed: set[str] = set()
        self._seconds = 0.0
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether someone who asks is refused or goes ahead of the others."""
        return self._seconds > 0

    def admit(self) -> None:
        """Raises UnreachableError where nobody may ask."""
        if not self.is_open:
            return
        rest = self._open_until - self._clock()
        if rest > 0:
            raise UnreachableError("the Hub was not to be reached lately", rest)
        self._open_until = self._clock() + self._seconds

    def succeeded(self) -> None:
        """The Hub has answered, whatever it said."""
        self._failed.clear()
        self._seconds = 0.0

    def failed(self, repo: str, *, connected: bool) -> None:
        """The Hub has not answered for this repository."""
        self._failed.add(repo)
        if self.is_open or len(self._failed) >= FAILURES or not connected:
            self._seconds = min(max(2 * self._seconds, FIRST_SECONDS), LONGEST_SECONDS)
            self._open_until = self._clock() + self._seconds

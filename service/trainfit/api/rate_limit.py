"""How often a caller may ask: a token bucket for each.

A bucket is the moment at which it will be full, in microseconds: whole numbers, so that what is
taken out comes back to the last token.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic

MICROSECONDS = 1_000_000

MAX_CALLERS = 10_000
"""Buckets that are kept. The one that was not touched for longest is forgotten, as if full."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a caller has left after a request: `remaining` requests at once, all of them again in
    `reset_seconds`. `retry_seconds` is what a request that is refused has to wait, else zero.
    """

    remaining: int
    reset_seconds: int
    retry_seconds: int


class RateLimit:
    """A bucket of `requests` for each caller, which refills evenly within `window_seconds`.

    Only the event loop takes from it.
    """

    def __init__(
        self, requests: int, window_seconds: int, clock: Callable[[], float] = monotonic
    ) -> None:
        self.requests = requests
        self.window_seconds = window_seconds
        self.each = max(1, window_seconds * MICROSECONDS // requests)
        self.capacity = self.each * requests
        self._clock = clock
        self._full_at: OrderedDict[str, int] = OrderedDict()

    async def take(self, caller: str) -> Allowance:
        """Take one request out of the caller's bucket. One that is refused takes nothing."""
        missing, wait = await self.taken(caller)
        remaining = (self.capacity - missing) // self.each
        seconds = (math.ceil(each / MICROSECONDS) for each in (missing, wait))
        return Allowance(remaining, *seconds)

    async def taken(self, caller: str) -> tuple[int, int]:
        """How long it is, in microseconds, until the bucket is full, and until it has a token where
        it had none to take.
        """
        now = int(self._clock() * MICROSECONDS)
        full_at = max(now, self._full_at.pop(caller, 0))
        wait = max(0, full_at + self.each - now - self.capacity)
        if wait == 0:
            full_at += self.each
        self._full_at[caller] = full_at
        if len(self._full_at) > MAX_CALLERS:
            self._full_at.popitem(last=False)
        return full_at - now, wait

    def headers(self, allowance: Allowance) -> Mapping[str, str]:
        """The headers of draft-ietf-httpapi-ratelimit-headers-10 that tell a caller of it."""
        return {
            "ratelimit-policy": f'"caller";q={self.requests};w={self.window_seconds}',
            "ratelimit": f'"caller";r={allowance.remaining};t={allowance.reset_seconds}',
        }

    async def aclose(self) -> None:
        """Close what is open: nothing here."""

"""How often a caller may ask: a token bucket for each."""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic

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
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> Allowance:
        """Take one request out of the caller's bucket. One that is refused takes nothing."""
        now = self._clock()
        seconds_each = self.window_seconds / self.requests
        tokens, then = self._buckets.pop(caller, (float(self.requests), now))
        tokens = min(tokens + (now - then) / seconds_each, self.requests)
        wait = max(0.0, (1 - tokens) * seconds_each)
        if not wait:
            tokens -= 1
        self._buckets[caller] = tokens, now
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)
        reset = (self.requests - tokens) * seconds_each
        return Allowance(int(tokens), math.ceil(reset), math.ceil(wait))

    def headers(self, allowance: Allowance) -> Mapping[str, str]:
        """The headers of draft-ietf-httpapi-ratelimit-headers-10 that tell a caller of it."""
        return {
            "ratelimit-policy": f'"caller";q={self.requests};w={self.window_seconds}',
            "ratelimit": f'"caller";r={allowance.remaining};t={allowance.reset_seconds}',
        }

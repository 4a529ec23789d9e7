"""One rate limit for all replicas, kept on a server that they share."""

from trainfit.api.rate_limit import RateLimit
from trainfit.hub.replicas import PREFIX, SharedServer

TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local each, capacity = tonumber(ARGV[1]), tonumber(ARGV[2])
local full_at = tonumber(redis.call('GET', KEYS[1])) or 0
-- An empty bucket is full after the whole window; what says more was not written here.
if not (full_at > now and full_at <= now + capacity) then full_at = now end
local wait = math.max(0, full_at + each - now - capacity)
if wait == 0 then
  full_at = full_at + each
  local milliseconds = math.ceil((full_at - now) / 1000)
  redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', milliseconds)
end
return {full_at - now, wait}
"""
"""`RateLimit.taken` by the clock of the server, which runs it as a whole."""


class SharedRateLimit(RateLimit):
    """While the server does not answer, each replica counts by itself, from full buckets."""

    def __init__(self, requests: int, window_seconds: int, url: str) -> None:
        super().__init__(requests, window_seconds)
        self._server = SharedServer(url)
        self._take = self._server.redis.register_script(TAKE)
        self._prefix = f"{PREFIX}:rate:{requests}:{window_seconds}"

    async def taken(self, caller: str) -> tuple[int, int]:
        async def ask() -> tuple[int, int]:
            missing, wait = await self._take(
                [f"{self._prefix}:{caller}"], [self.each, self.capacity]
            )
            return missing, wait

        there = await self._server.answer(ask)
        return there if there is not None else await super().taken(caller)

    async def aclose(self) -> None:
        await self._server.aclose()

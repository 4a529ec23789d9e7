"""What replicas share: a Redis or Valkey. The only module that knows its client.

One that is slow or gone costs a moment, then nothing for a while, and never an answer.
"""

import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

PREFIX = "trainfit:1"
"""Of every name there."""
ANSWER_SECONDS = 0.25
REST_SECONDS = 5.0
"""Nobody asks for so long after a failure."""
MAX_CONNECTIONS = 32

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class SharedServer:
    """One server, as it is asked for one purpose."""

    def __init__(self, url: str) -> None:
        self._rest_until = 0.0
        self.redis: Redis = Redis.from_pool(
            BlockingConnectionPool.from_url(
                url,
                max_connections=MAX_CONNECTIONS,
                timeout=ANSWER_SECONDS,
                socket_timeout=ANSWER_SECONDS,
                socket_connect_timeout=ANSWER_SECONDS,
                retry=Retry(NoBackoff(), 0),
                client_name="trainfit",
            )
        )

    async def answer(self, question: Callable[[], Awaitable[Result]]) -> Result | None:
        """What the server answers; None where it does not."""
        if monotonic() < self._rest_until:
            return None
        try:
            return await question()
        except (OSError, RedisError) as error:
            self._rest_until = monotonic() + REST_SECONDS
            # Not its text, which may hold the address with a password.
            log.warning("what replicas share does not answer: %s", type(error).__name__)
            return None

    async def aclose(self) -> None:
        await self.redis.aclose()

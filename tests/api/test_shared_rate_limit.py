"""One limit for all replicas, and no request that fails because of what they share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from httpx import ASGITransport, AsyncClient

from tests.redis_server import RedisServer, running_redis
from trainfit.api.app import create_app
from trainfit.api.rate_limit import RateLimit
from trainfit.api.settings import ServiceSettings
from trainfit.api.shared_rate_limit import SharedRateLimit

REQUESTS = 6
WINDOW = 600


@pytest.fixture
def redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """One that is waited for, since its time limit counts what this process does itself."""
    monkeypatch.setattr("trainfit.hub.replicas.ANSWER_SECONDS", 30.0)
    with running_redis(tmp_path) as server:
        yield server


@asynccontextmanager
async def replicas(redis: RedisServer, number: int = 2) -> AsyncIterator[list[AsyncClient]]:
    async with AsyncExitStack() as opened:
        clients = []
        for _ in range(number):
            app = create_app(
                ServiceSettings.model_validate(
                    {
                        "rate_limit": REQUESTS,
                        "rate_limit_window_seconds": WINDOW,
                        "cache_url": redis.url,
                    }
                )
            )
            await opened.enter_async_context(app.router.lifespan_context(app))
            client = AsyncClient(transport=ASGITransport(app), base_url="http://service")
            clients.append(await opened.enter_async_context(client))
        yield clients


@asynccontextmanager
async def shared(redis: RedisServer, requests: int, window: int) -> AsyncIterator[RateLimit]:
    limit = SharedRateLimit(requests, window, redis.url)
    try:
        yield limit
    finally:
        await limit.aclose()


async def statuses(client: AsyncClient, number: int) -> list[int]:
    return [(await client.get("/v1/gpus")).status_code for _ in range(number)]


async def test_a_caller_has_one_bucket_whichever_replica_answers(redis: RedisServer) -> None:
    async with replicas(redis) as (first, second):
        answers = [await client.get("/v1/gpus") for client in (first, second) * (REQUESTS // 2)]
        assert [each.status_code for each in answers] == [200] * REQUESTS
        left = [each.headers["ratelimit"].split(";")[1] for each in answers]
        assert left == [f"r={number}" for number in reversed(range(REQUESTS))]
        for client in (first, second):
            refused = await client.get("/v1/gpus")
            assert refused.status_code == 429
            assert WINDOW / REQUESTS - 5 < int(refused.headers["retry-after"]) <= WINDOW / REQUESTS


async def test_requests_at_once_take_no_token_twice(redis: RedisServer) -> None:
    async with replicas(redis, 4) as clients:
        answers = await asyncio.gather(
            *(client.get("/v1/gpus") for client in clients for _ in range(20))
        )
    assert sorted(each.status_code for each in answers) == [200] * REQUESTS + [429] * (
        80 - REQUESTS
    )


async def test_it_counts_as_a_replica_does_by_itself(redis: RedisServer) -> None:
    here = RateLimit(5, 10_000, clock=lambda: 1e6)
    async with shared(redis, 5, 10_000) as there:
        for _ in range(8):
            mine, theirs = await here.take("a"), await there.take("a")
            assert theirs.remaining == mine.remaining
            assert mine.reset_seconds - 60 < theirs.reset_seconds <= mine.reset_seconds
            assert mine.retry_seconds - 60 < theirs.retry_seconds <= mine.retry_seconds


async def test_who_waits_as_told_is_answered_and_nothing_is_left_behind(
    redis: RedisServer,
) -> None:
    async with shared(redis, 2, 2) as limit:
        assert [(await limit.take("a")).remaining for _ in range(2)] == [1, 0]
        refused = await limit.take("a")
        assert refused.retry_seconds == 1
        await asyncio.sleep(refused.retry_seconds)
        assert not (await limit.take("a")).retry_seconds
        await asyncio.sleep(2.1)
        with redis.client() as client:
            assert list(client.scan_iter()) == []


async def test_a_server_that_comes_and_goes_fails_no_request(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainfit.hub.replicas.REST_SECONDS", 0.05)
    async with replicas(redis) as (first, second):
        assert await statuses(first, REQUESTS) == [200] * REQUESTS
        redis.kill()
        for client in (first, second):  # each by itself, from a full bucket
            assert await statuses(client, REQUESTS + 1) == [200] * REQUESTS + [429]
        redis.start()
        await asyncio.sleep(0.1)
        assert await statuses(first, 1) == [429]  # as it was before
        with redis.client() as client:
            client.flushall()
        assert sorted(await statuses(first, 4) + await statuses(second, 4)) == [200] * 6 + [429] * 2


@pytest.mark.parametrize("kept", ["inf", "nan", "-inf", "1e300", "text"])
async def test_a_bucket_that_nobody_of_us_wrote_is_full(redis: RedisServer, kept: str) -> None:
    limit = SharedRateLimit(REQUESTS, WINDOW, redis.url)
    await limit._server.redis.set(f"{limit._prefix}:caller", kept)
    allowance = await limit.take("caller")
    assert (allowance.remaining, allowance.retry_seconds) == (REQUESTS - 1, 0)
    await limit.aclose()

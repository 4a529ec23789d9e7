"""How often a caller may ask, and what it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient
from hypothesis import given
from hypothesis import strategies as st

from trainfit.api import rate_limit
from trainfit.api.api_keys import named, new_key
from trainfit.api.app import create_app
from trainfit.api.rate_limit import RateLimit
from trainfit.api.settings import ServiceSettings

CI, PORTAL, NEW_PORTAL = (new_key() for _ in range(3))
KEYS = (named("ci", CI), named("portal", PORTAL), named("portal", NEW_PORTAL))


class Clock:
    """A time that passes when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1e6

    def __call__(self) -> float:
        return self.seconds


async def test_a_full_bucket_is_taken_at_once_and_refills_evenly() -> None:
    clock = Clock()
    limit = RateLimit(4, 60, clock)
    assert [(await limit.take("a")).remaining for _ in range(4)] == [3, 2, 1, 0]
    refused = await limit.take("a")
    assert (refused.remaining, refused.retry_seconds, refused.reset_seconds) == (0, 15, 60)
    clock.seconds += 14
    assert (await limit.take("a")).retry_seconds == 1
    clock.seconds += 1
    assert (await limit.take("a")).retry_seconds == 0
    clock.seconds += 1_000
    assert (await limit.take("a")).remaining == 3


async def test_each_caller_has_a_bucket() -> None:
    limit = RateLimit(1, 60, Clock())
    assert (await limit.take("a")).retry_seconds == 0
    assert (await limit.take("a")).retry_seconds == 60
    assert (await limit.take("b")).retry_seconds == 0


async def test_buckets_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MAX_CALLERS", 100)
    limit = RateLimit(1, 60, Clock())
    await limit.take("first")
    for number in range(99):
        await limit.take(str(number))
    assert (await limit.take("first")).retry_seconds == 60
    for number in range(1_000):
        await limit.take(str(number))
    assert (await limit.take("first")).retry_seconds == 0


@given(
    requests=st.integers(1, 50),
    window=st.integers(1, 1_000),
    pauses=st.lists(st.floats(0, 100), max_size=200),
)
async def test_no_window_has_more_than_a_bucket_and_its_refill(
    requests: int, window: int, pauses: list[float]
) -> None:
    clock = Clock()
    limit = RateLimit(requests, window, clock)
    answered = []
    for pause in pauses:
        clock.seconds += pause
        allowance = await limit.take("a")
        assert 0 <= allowance.remaining < requests
        assert 0 <= allowance.retry_seconds <= allowance.reset_seconds <= window
        if not allowance.retry_seconds:
            answered.append(clock.seconds)
    for begin in answered:
        assert sum(begin <= each < begin + window for each in answered) <= 2 * requests


@given(requests=st.integers(1, 50), window=st.integers(1, 1_000), part=st.floats(0, 0.5))
async def test_who_waits_as_told_is_answered(requests: int, window: int, part: float) -> None:
    clock = Clock()
    limit = RateLimit(requests, window, clock)
    while not (allowance := await limit.take("a")).retry_seconds:
        clock.seconds += part * window / requests
    clock.seconds += allowance.retry_seconds
    assert (await limit.take("a")).retry_seconds == 0


@asynccontextmanager
async def asking(app: FastAPI, address: str = "192.0.2.1") -> AsyncIterator[AsyncClient]:
    transport = ASGITransport(app, client=(address, 1))
    async with AsyncClient(transport=transport, base_url="http://service") as client:
        yield client


async def test_who_asks_too_often_is_told_when_to_come_back() -> None:
    async with asking(
        create_app(ServiceSettings(rate_limit=2, rate_limit_window_seconds=60))
    ) as client:
        for remaining in (1, 0):
            answered = await client.get("/v1/gpus")
            assert answered.status_code == 200
            assert answered.headers["ratelimit-policy"] == '"caller";q=2;w=60'
            assert answered.headers["ratelimit"].startswith(f'"caller";r={remaining};t=')
        refused = await client.get("/v1/gpus")
        assert (await client.get("/readyz")).status_code == 200
    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["type"] == "/problems/rate-limited"
    assert refused.json()["detail"] == "2 requests in 60 s; ask again in 30 s"
    assert refused.headers["retry-after"] == "30"
    assert refused.headers["ratelimit"] == '"caller";r=0;t=60'


async def test_an_answer_that_is_a_problem_tells_what_is_left_too() -> None:
    async with asking(create_app(ServiceSettings(rate_limit=2))) as client:
        refused = await client.post("/v1/estimate", json={})
    assert refused.status_code == 422
    assert refused.headers["ratelimit"].startswith('"caller";r=1;')


async def test_without_a_limit_nothing_is_said_of_one(client: AsyncClient) -> None:
    headers = (await client.get("/v1/gpus")).headers
    assert not [name for name in headers if name.startswith("ratelimit")]


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("made:up", "made up as well", True),
    ],
)
async def test_addresses_of_one_site_are_one_caller(first: str, second: str, alike: bool) -> None:
    app = create_app(ServiceSettings(rate_limit=1))
    async with asking(app, first) as client, asking(app, second) as other:
        assert (await client.get("/v1/gpus")).status_code == 200
        assert (await other.get("/v1/gpus")).status_code == (429 if alike else 200)


async def test_keys_of_one_label_share_a_bucket() -> None:
    async with asking(create_app(ServiceSettings(rate_limit=1, api_keys=KEYS))) as client:

        async def status(key: str) -> int:
            headers = {"authorization": f"Bearer {key}"}
            return (await client.get("/v1/gpus", headers=headers)).status_code

        assert [await status(key) for key in (CI, PORTAL, NEW_PORTAL)] == [200, 200, 429]


async def test_who_has_no_key_uses_up_nothing() -> None:
    async with asking(create_app(ServiceSettings(rate_limit=1, api_keys=KEYS))) as client:
        for _ in range(3):
            assert (await client.get("/v1/gpus")).status_code == 401
        headers = {"authorization": f"Bearer {CI}"}
        assert (await client.get("/v1/gpus", headers=headers)).status_code == 200

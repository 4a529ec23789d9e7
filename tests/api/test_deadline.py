"""No body that never ends and no work that takes too long keeps a request open."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from httpx import ASGITransport, AsyncClient

from trainfit.api import launches, unread_bodies
from trainfit.api.app import create_app
from trainfit.api.deadline import Deadline, DeadlinePassedError, check_deadline
from trainfit.api.examples import LLAMA_8B
from trainfit.api.jobs import answered
from trainfit.api.routes import estimate
from trainfit.api.settings import Settings
from trainfit.specs.job import Job

JSON = {"content-type": "application/json"}


@asynccontextmanager
async def asking(settings: Settings) -> AsyncIterator[AsyncClient]:
    transport = ASGITransport(create_app(settings))
    async with AsyncClient(transport=transport, base_url="http://service") as client:
        yield client


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for a client that is still sending."""
    monkeypatch.setattr(unread_bodies, "LINGER_SECONDS", 0.01)


async def never_ending() -> AsyncIterator[bytes]:
    while True:
        yield b" "
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("path", ["/v1/estimate", "/v1/fit-check", "/v1/compare"])
async def test_a_body_that_does_not_end_is_not_waited_for(path: str) -> None:
    async with asking(Settings(body_timeout_seconds=0.1, max_concurrent_requests=1)) as client:
        response = await client.post(path, content=never_ending(), headers=JSON)
        assert response.status_code == 408
        assert response.json()["type"] == "/problems/slow-body"
        assert response.json()["detail"] == "the body did not arrive within 0.1 s"
        assert (await client.post("/v1/estimate", json=LLAMA_8B)).status_code == 200


async def slow(job: object) -> AsyncIterator[bytes]:
    await asyncio.sleep(0.2)
    yield json.dumps(job).encode()


async def test_the_time_for_a_request_includes_its_body() -> None:
    async with asking(Settings(request_timeout_seconds=0.1)) as client:
        response = await client.post("/v1/estimate", content=never_ending(), headers=JSON)
    assert response.status_code == 408
    assert response.json()["detail"] == "the body did not arrive within 0.1 s"


async def test_what_a_body_takes_to_arrive_is_not_left_for_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def found_late(*_: object) -> None:
        await asyncio.sleep(0.2)

    monkeypatch.setattr(estimate, "look_up", found_late)
    async with asking(Settings(request_timeout_seconds=0.3)) as client:
        response = await client.post("/v1/estimate", content=slow(LLAMA_8B), headers=JSON)
    assert response.status_code == 503
    assert response.json()["type"] == "/problems/timed-out"


async def test_work_in_a_thread_is_not_waited_for_and_ends_at_the_next_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, ended = 0, asyncio.Event()
    loop = asyncio.get_running_loop()

    def several_slow_jobs(job: Job, answer: Callable[[Job], object]) -> object:
        nonlocal begun
        try:
            for _ in range(100):
                begun += 1
                time.sleep(0.05)
                answered(job, answer)
        finally:
            loop.call_soon_threadsafe(ended.set)
        return None

    monkeypatch.setattr(launches, "answered", several_slow_jobs)
    async with asking(Settings(request_timeout_seconds=0.2)) as client:
        begin = time.monotonic()
        response = await client.post("/v1/fit-check", json=LLAMA_8B)
        assert time.monotonic() - begin < 2
        await ended.wait()
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert response.json()["type"] == "/problems/timed-out"
    assert response.json()["detail"] == "there was no answer within 0.2 s"
    assert begun < 50


async def test_a_deadline_ends_with_its_request() -> None:
    with pytest.raises(DeadlinePassedError):
        async with Deadline(0.01):
            await asyncio.sleep(10)
    check_deadline()
    async with Deadline(0.01):
        time.sleep(0.02)
        with pytest.raises(DeadlinePassedError):
            check_deadline()
    check_deadline()


async def test_an_inner_deadline_does_not_put_off_an_outer_one() -> None:
    async with Deadline(0.01), Deadline(10):
        time.sleep(0.02)
        with pytest.raises(DeadlinePassedError):
            check_deadline()


async def test_a_time_out_of_something_else_is_not_taken_for_a_deadline() -> None:
    with pytest.raises(TimeoutError):
        async with Deadline(10):
            raise TimeoutError

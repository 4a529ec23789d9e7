"""No body that never ends and no work that takes too long keeps a request open."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from httpx import ASGITransport, AsyncClient

from tests.processes import children, cpu_seconds
from trainfit.api import unread_bodies
from trainfit.api.app import create_app
from trainfit.api.deadline import DeadlinePassedError, Deadlines
from trainfit.api.examples import LLAMA_8B
from trainfit.api.routes import estimate, fit_check
from trainfit.api.settings import ServiceSettings

JSON = {"content-type": "application/json"}


@asynccontextmanager
async def asking(settings: ServiceSettings) -> AsyncIterator[AsyncClient]:
    app = create_app(settings)
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        yield client
    await app.state.workers.aclose()


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
    async with asking(
        ServiceSettings(body_timeout_seconds=0.3, max_concurrent_requests=1)
    ) as client:
        response = await client.post(path, content=never_ending(), headers=JSON)
        assert response.status_code == 408
        assert response.json()["type"] == "/problems/slow-body"
        assert response.json()["detail"] == "the body did not arrive within 0.3 s"
        assert (await client.post("/v1/estimate", json=LLAMA_8B)).status_code == 200


async def slow(job: object) -> AsyncIterator[bytes]:
    await asyncio.sleep(0.5)
    yield json.dumps(job).encode()


async def test_the_time_for_a_request_includes_its_body() -> None:
    async with asking(ServiceSettings(request_timeout_seconds=0.1)) as client:
        response = await client.post("/v1/estimate", content=never_ending(), headers=JSON)
    assert response.status_code == 408
    assert response.json()["detail"] == "the body did not arrive within 0.1 s"


async def test_what_a_body_takes_to_arrive_is_not_left_for_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def found_late(*_: object) -> None:
        await asyncio.sleep(0.8)

    monkeypatch.setattr(estimate, "look_up", found_late)
    async with asking(ServiceSettings(request_timeout_seconds=1.2)) as client:
        response = await client.post("/v1/estimate", content=slow(LLAMA_8B), headers=JSON)
    assert response.status_code == 503
    assert response.json()["type"] == "/problems/timed-out"


def never_ends(*_: object) -> None:
    while True:
        pass


async def test_work_that_is_late_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_check, "fit_check_reply", never_ends)
    settings = ServiceSettings(request_timeout_seconds=6, worker_processes=1, worker_cpu_seconds=60)
    async with asking(settings) as client:
        begin = time.monotonic()
        response = await client.post("/v1/fit-check", json=LLAMA_8B)
        assert 6 <= time.monotonic() - begin < 9
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        assert response.json()["type"] == "/problems/timed-out"
        assert response.json()["detail"] == "there was no answer within 6 s"
    assert not busy_children()


def busy_children() -> list[int]:
    """Processes of this one that compute."""
    before = {each: cpu_seconds(each) for each in children(os.getpid())}
    time.sleep(0.3)
    return [each for each in before if cpu_seconds(each) - before[each] > 0.2]


async def test_a_deadline_ends_what_it_encloses() -> None:
    deadlines = Deadlines()
    with pytest.raises(DeadlinePassedError):
        async with deadlines.within(0.01):
            await asyncio.sleep(10)


async def test_an_inner_deadline_does_not_put_off_an_outer_one() -> None:
    deadlines = Deadlines()
    with pytest.raises(DeadlinePassedError):
        async with deadlines.within(0.01), deadlines.within(10):
            await asyncio.sleep(1)


async def test_deadlines_are_brought_forward() -> None:
    deadlines = Deadlines()
    begin = time.monotonic()
    asyncio.get_running_loop().call_later(0.05, deadlines.bring_forward, 0.05)
    with pytest.raises(DeadlinePassedError):
        async with deadlines.within(20):
            await asyncio.sleep(10)
    assert time.monotonic() - begin < 5


async def test_a_time_out_of_something_else_is_not_taken_for_a_deadline() -> None:
    with pytest.raises(TimeoutError):
        async with Deadlines().within(10):
            raise TimeoutError

"""Requests that would freeze or fill the service are ended, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import httpx
import pytest

from tests.hostile import HOSTILE, Request
from tests.processes import children, cpu_seconds, proportional_bytes, threads
from tests.serving import Service, started_service
from trainfit.api.examples import DEEPSEEK_V3, LLAMA_8B
from trainfit.api.work import LEFT_SECONDS
from trainfit.workers.pool import START_SECONDS

pytestmark = pytest.mark.alone

MIB = 2**20
PROCESSES = 5
"""The service, a worker for what is quick, one for what is long, and two that read."""
SECONDS = 12
AT_ONCE = 56
"""Hostile requests; with the ordinary ones no more than the service takes."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    log: Path = tmp_path_factory.mktemp("hostile") / "log"
    with started_service(log, TRAINFIT_WORKER_PROCESSES="2") as service:
        settled(service)
        yield service


def tree(service: Service) -> list[int]:
    return [service.process.pid, *children(service.process.pid)]


def settled(service: Service) -> None:
    """Wait until every worker is there and has loaded what it needs."""
    end = time.monotonic() + 60
    status = 0
    while len(tree(service)) != PROCESSES or status != 200:
        assert time.monotonic() < end, (tree(service), status)
        status = httpx.post(f"{service.url}/v1/fit-check", json=LLAMA_8B, timeout=30).status_code


async def ask(client: httpx.AsyncClient, request: Request) -> tuple[int, float]:
    """The status of an answer, and how long it took."""
    path, body = request
    begun = time.monotonic()
    response = await client.post(
        path, content=json.dumps(body), headers={"content-type": "application/json"}
    )
    return response.status_code, time.monotonic() - begun


async def test_all_at_once_they_are_answered_or_ended_and_others_are_answered_meanwhile(
    service: Service,
) -> None:
    pid = service.process.pid
    before = threads(pid)
    peak, livez = 0, 0.0
    ordinary = deepcopy(DEEPSEEK_V3)
    limits = httpx.Limits(max_connections=100)
    async with httpx.AsyncClient(base_url=service.url, timeout=60, limits=limits) as client:
        places = asyncio.Semaphore(AT_ONCE)

        async def ask_in_place(request: Request) -> tuple[int, float]:
            async with places:
                return await ask(client, request)

        hostile = [asyncio.create_task(ask_in_place(each)) for each in HOSTILE.values()]
        while not all(each.done() for each in hostile):
            begun = time.monotonic()
            assert (await client.get("/livez")).status_code == 200
            livez = max(livez, time.monotonic() - begun)
            ordinary["training"]["seq_length"] += 128
            assert (await ask(client, ("/v1/estimate", ordinary)))[0] == 200
            peak = max(peak, sum(map(proportional_bytes, tree(service))))
            await asyncio.sleep(0.02)
        outcomes = dict(zip(HOSTILE, [each.result() for each in hostile], strict=True))
    assert {
        name: outcome
        for name, outcome in outcomes.items()
        if (outcome[0] >= 500 and outcome[0] != 503) or outcome[1] > SECONDS
    } == {}
    assert livez < 1
    assert peak < 640 * MIB  # of the 1,024 that deploy/kubernetes lets a replica have
    settled(service)
    end = time.monotonic() + 30
    while threads(pid) > before + 1:  # The one that compresses long answers stays.
        assert time.monotonic() < end
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("name", ["merge keys of YAML", "a loop without end", "a deep config"])
async def test_alone_it_is_refused_for_what_it_is(service: Service, name: str) -> None:
    path, body = HOSTILE[name]
    async with httpx.AsyncClient(base_url=service.url, timeout=60) as client:
        response = await client.post(path, json=body)
    assert response.status_code in (400, 422)


async def test_a_caller_who_hangs_up_ends_the_work(service: Service) -> None:
    """By then at the latest, a search of two minutes among it."""
    settled(service)
    path, body = HOSTILE["the longest sequence of two thousand layers"]
    async with httpx.AsyncClient(base_url=service.url) as client:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await client.post(path, json=body, headers={"accept": "text/event-stream"})
    end = time.monotonic() + START_SECONDS + 3 * LEFT_SECONDS
    while await busy(service):
        assert time.monotonic() < end
    settled(service)


async def busy(service: Service) -> bool:
    """Whether a tenth of the next second is worked in."""
    before = sum(map(cpu_seconds, tree(service)))
    await asyncio.sleep(1)
    return sum(map(cpu_seconds, tree(service))) - before >= 0.1


async def test_told_to_stop_it_answers_or_ends_what_is_under_way(tmp_path: Path) -> None:
    grace = 3
    with started_service(
        tmp_path / "log",
        TRAINFIT_WORKER_PROCESSES="2",
        TRAINFIT_SHUTDOWN_GRACE_SECONDS=str(grace),
        TRAINFIT_REQUEST_TIMEOUT_SECONDS="30",
        TRAINFIT_WORKER_CPU_SECONDS="30",
    ) as service:
        settled(service)
        workers = children(service.process.pid)
        async with httpx.AsyncClient(base_url=service.url, timeout=60) as client:
            hostile = [asyncio.create_task(ask(client, each)) for each in HOSTILE.values()]
            await asyncio.sleep(1)
            service.process.terminate()
            begun = time.monotonic()
            outcomes = await asyncio.gather(*hostile, return_exceptions=True)
        service.process.wait(timeout=grace + 2)
        assert time.monotonic() - begun < grace + 2
        while any(Path(f"/proc/{each}").exists() for each in workers):
            assert time.monotonic() - begun < grace + 4  # whoever inherits them has to reap them
            await asyncio.sleep(0.05)
    assert service.process.returncode == 0
    answered = [each for each in outcomes if isinstance(each, tuple)]
    assert [status for status, _ in answered if status >= 500 and status != 503] == []
    assert len(answered) == len(outcomes)

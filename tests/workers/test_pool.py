"""What workers do can be limited, ended and started anew."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from anyio import CapacityLimiter, to_process

from tests.processes import children
from tests.workers import work
from trainfit.workers import pool
from trainfit.workers.errors import FaultError, TooMuchWorkError
from trainfit.workers.limits import WorkerLimits
from trainfit.workers.pool import Workers

LIMITS = WorkerLimits(memory_bytes=128 * 2**20, cpu_seconds=1)


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    workers = Workers({"quick": 1, "slow": 1}, LIMITS)
    yield workers
    await workers.aclose()


async def test_a_function_is_run_in_another_process(workers: Workers) -> None:
    assert await workers.run("quick", work.double, 21) == 42
    assert await workers.run("quick", work.process) in children(os.getpid())


async def test_a_process_is_kept_for_the_next(workers: Workers) -> None:
    first = await workers.run("quick", work.process)
    assert await workers.run("slow", work.process) == first


async def test_memory_is_limited_and_the_process_goes_on(workers: Workers) -> None:
    first = await workers.run("slow", work.process)
    with pytest.raises(TooMuchWorkError):
        await workers.run("slow", work.fill)
    assert await workers.run("slow", work.process) == first


async def test_processor_time_is_limited(workers: Workers) -> None:
    first = await workers.run("slow", work.process)
    with pytest.raises(TooMuchWorkError):
        await workers.run("slow", work.compute)
    assert await workers.run("slow", work.process) != first


async def test_what_a_function_raises_is_told_with_its_traceback(workers: Workers) -> None:
    with pytest.raises(FaultError, match="LookupError: there is no such thing"):
        await workers.run("slow", work.fail)


async def test_cancelling_kills_the_process(workers: Workers, tmp_path: Path) -> None:
    told = tmp_path / "pid"
    running = asyncio.create_task(workers.run("slow", work.announce, str(told)))
    while not told.exists() or not told.read_text():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    end = time.monotonic() + pool.START_SECONDS + 1
    while int(told.read_text()) in children(os.getpid()):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("seconds", [0.005, 0.02, 0.05])
async def test_a_process_whose_start_is_cancelled_does_not_stay(seconds: float) -> None:
    before = set(children(os.getpid()))
    workers = Workers({"quick": 1, "slow": 1}, LIMITS)
    for _ in range(3):
        starting = asyncio.create_task(workers.run("slow", work.process))
        await asyncio.sleep(seconds)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    await asyncio.sleep(pool.START_SECONDS + 0.5)
    await running(2, before)
    await workers.aclose()


async def test_one_lane_does_not_wait_for_another(workers: Workers, tmp_path: Path) -> None:
    busy = [
        asyncio.create_task(workers.run("slow", work.announce, str(tmp_path / str(number))))
        for number in range(3)
    ]
    assert await workers.run("quick", work.double, 21) == 42
    for each in busy:
        each.cancel()
    await asyncio.gather(*busy, return_exceptions=True)


async def test_all_processes_are_started_and_again_when_one_is_gone() -> None:
    before = set(children(os.getpid()))
    workers = Workers({"quick": 1, "slow": 2}, LIMITS)
    workers.fill()
    await running(3, before)
    with pytest.raises(TooMuchWorkError):
        await workers.run("slow", work.compute)
    await running(3, before)
    await workers.aclose()


async def test_the_first_lane_has_a_process_before_others_are_started() -> None:
    begun: list[CapacityLimiter] = []
    ready = asyncio.Event()

    class Recorded(Workers):
        async def _in_process(self, limiter: CapacityLimiter, *_: object) -> None:
            begun.append(limiter)
            await ready.wait()

    workers = Recorded({"quick": 1, "slow": 2}, LIMITS)
    beginning = asyncio.create_task(workers.begin())
    await settled()
    assert [limiter.total_tokens for limiter in begun] == [1]
    ready.set()
    await settled()
    assert [limiter.total_tokens for limiter in begun] == [1, 1, 2, 2]
    await beginning
    await workers.aclose()


async def settled() -> None:
    """Let tasks go on until they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_process_that_ends_while_others_are_started_is_started_again() -> None:
    before = set(children(os.getpid()))
    workers = Workers({"quick": 1, "slow": 2}, LIMITS)
    await workers.run("slow", work.process)
    computing = asyncio.create_task(workers.run("slow", work.compute))
    await asyncio.sleep(0.05)
    workers.fill()
    await asyncio.sleep(0.05)
    computing.cancel()
    await asyncio.gather(computing, return_exceptions=True)
    await running(3, before)
    await workers.aclose()


async def running(number: int, others: set[int]) -> None:
    """Wait for so many processes beside others, which may end meanwhile: tests leave theirs."""
    end = time.monotonic() + 20
    while len(set(children(os.getpid())) - others) != number:
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


async def test_once_stopped_no_process_is_started_in_place_of_another(workers: Workers) -> None:
    await workers.run("slow", work.process)
    before = set(children(os.getpid()))
    workers.stop()
    with pytest.raises(TooMuchWorkError):
        await workers.run("slow", work.compute)
    await asyncio.sleep(0.2)
    assert set(children(os.getpid())) < before


async def test_without_processes_functions_run_here() -> None:
    workers = Workers({"quick": 1}, LIMITS, processes=False)
    assert await workers.run("quick", work.process) == os.getpid()
    with pytest.raises(LookupError):
        await workers.run("quick", work.fail)


async def test_idle_processes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """anyio ends those that were idle for long whenever it takes another."""
    monkeypatch.setattr(to_process, "WORKER_MAX_IDLE_TIME", 3.0)
    monkeypatch.setattr(pool, "KEPT_SECONDS", 0.1)
    others = set(children(os.getpid()))
    workers = Workers({"quick": 1, "slow": 1}, LIMITS)
    workers.fill()
    end = time.monotonic() + 30
    while len(before := set(children(os.getpid())) - others) < 2:
        assert time.monotonic() < end
        await asyncio.sleep(0.05)
    await asyncio.sleep(3.5)
    assert await workers.run("quick", work.double, 21) == 42
    assert set(children(os.getpid())) - others == before
    await workers.aclose()

"""What a core answers, alone and as one of two replicas behind a proxy that takes turns.

By the processor time of the services and their workers, which other work of the machine does not
change: where each replica has cores of its own, as many as there are hold so many times the load.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any

import httpx

from tests.processes import children, cpu_seconds
from tests.serving import Service, started_service
from trainfit.api.examples import DEEPSEEK_V3, LLAMA_8B

CONNECTIONS = 8
REPLICAS = 2
ROUNDS = 2
SEQUENCES = count(1024, 64)
Question = Callable[[], tuple[str, dict[str, Any]]]


def new(job: dict[str, Any]) -> dict[str, Any]:
    """The job with a length that nobody has asked about."""
    return {**job, "training": {**job.get("training", {}), "seq_length": next(SEQUENCES)}}


UNHURRIED = {
    "HF_HUB_OFFLINE": "1",
    "TRAINFIT_LOG_LEVEL": "error",
    "TRAINFIT_REQUEST_TIMEOUT_SECONDS": "120",
    "TRAINFIT_WORKER_CPU_SECONDS": "60",
}
"""So that no answer is late because much else runs on the machine."""
QUESTIONS: dict[str, tuple[int, Question]] = {
    "an estimate that is remembered": (1500, lambda: ("/v1/estimate", LLAMA_8B)),
    "a new one by a ratio, Llama 3.1 8B": (
        500,
        lambda: ("/v1/estimate?replay=false", new(LLAMA_8B)),
    ),
    "a new one, Llama 3.1 8B": (40, lambda: ("/v1/estimate", new(LLAMA_8B))),
    "a new one, DeepSeek-V3 on 4 stages": (8, lambda: ("/v1/estimate", new(DEEPSEEK_V3))),
}
"""How often each is asked."""


@dataclass(frozen=True, slots=True)
class Load:
    """What services took for a number of requests."""

    requests: int
    cpu_seconds: float

    @property
    def a_core_second(self) -> float:
        return self.requests / self.cpu_seconds


def cpu(service: Service) -> float:
    """Processor time of a service and its workers."""
    pid = service.process.pid
    return sum(cpu_seconds(each) for each in (pid, *children(pid)))


@asynccontextmanager
async def taking_turns(services: Sequence[Service]) -> AsyncIterator[str]:
    """A proxy that gives each connection to the next service."""
    targets = cycle([httpx.URL(service.url) for service in services])

    async def piped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(65_536):
            writer.write(part)
            await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = next(targets)
        onward, back = await asyncio.open_connection(target.host, target.port)
        with suppress(asyncio.CancelledError):  # when the load is over
            await asyncio.gather(piped(reader, back), piped(onward, writer))

    server = await asyncio.start_server(connected, "127.0.0.1")
    host, port = server.sockets[0].getsockname()
    async with server:
        yield f"http://{host}:{port}"


async def loaded(services: Sequence[Service], number: int, question: Question) -> Load:
    """So many requests, over connections that stay, through the proxy."""
    async with taking_turns(services) as url:
        left = iter(range(number))

        async def asking() -> None:
            async with httpx.AsyncClient(base_url=url, timeout=120) as client:
                for _ in left:
                    path, body = question()
                    (await client.post(path, json=body)).raise_for_status()

        before = sum(map(cpu, services))
        await asyncio.gather(*[asking() for _ in range(CONNECTIONS)])
        return Load(number, sum(map(cpu, services)) - before)


def measured(services: Sequence[Service], number: int, question: Question) -> tuple[Load, Load]:
    """The least that one service takes, and that all do, in turn."""
    asyncio.run(loaded(services, CONNECTIONS * len(services), question))  # what is loaded at first
    rounds = [
        [asyncio.run(loaded(asked, number, question)) for asked in (services[:1], services)]
        for _ in range(ROUNDS)
    ]
    one, all_ = [
        min(loads, key=lambda load: load.cpu_seconds) for loads in zip(*rounds, strict=True)
    ]
    return one, all_


def main() -> None:
    with ExitStack() as stack:
        services = [stack.enter_context(started_service(**UNHURRIED)) for _ in range(REPLICAS)]
        for name, (number, question) in QUESTIONS.items():
            one, both = measured(services, number, question)
            held = REPLICAS * both.a_core_second / one.a_core_second
            print(
                f"{name:48s} {1e3 / one.a_core_second:9.2f} ms of a core; {one.a_core_second:6.0f}"
                f" a core second; two replicas hold {held:.2f} times as many"
            )


if __name__ == "__main__":
    main()

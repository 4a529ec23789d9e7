"""Clients of every kind: who ask well or badly, too much or too slowly, and who leave."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import httpx

from tests.hostile import HOSTILE
from trainfit.api.examples import DEEPSEEK_V3, LAUNCH_EXAMPLES, LLAMA_8B
from trainfit.api.kinds import KINDS
from trainfit.questions.kinds import INTERNAL_ERROR

JSON = {"content-type": "application/json"}
OPERATIONS = ("/v1/estimate", "/v1/fit-check", "/v1/estimate:batch", "/v1/compare")
PAUSE_SECONDS = 0.02
ORDINARY = (
    ("/v1/estimate", DEEPSEEK_V3),
    ("/v1/fit-check", LLAMA_8B),
    ("/v1/jobs:from-launch", LAUNCH_EXAMPLES["megatron"]["value"]),
)
TOO_LONG = 2_000_000
"""Bytes of a body that is not read to its end."""


@dataclass(slots=True)
class Outcomes:
    """What the clients were told, by kind of client and status; and whatever should not be."""

    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    ordinary_seconds: list[float] = field(default_factory=list)

    def note(self, client: str, status: int, body: bytes) -> None:
        """Take down an answer. A status from 500 on is one that the documentation names."""
        self.statuses[client, status] += 1
        if status < 500:
            return
        try:
            slug = json.loads(body)["type"].rpartition("/")[2]
        except (ValueError, KeyError):
            slug = ""
        if slug not in KINDS or slug == INTERNAL_ERROR.slug or KINDS[slug].status != status:
            self.faults.append(f"{client}: {status} {body[:200]!r}")


@dataclass(frozen=True, slots=True)
class Load:
    """Clients of a service at `url`, who also name `models` that only a Hub knows."""

    url: str
    models: Sequence[str]
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    outcomes: Outcomes = field(default_factory=Outcomes)

    async def run(self, seconds: float) -> None:
        """Let all clients ask for so long."""
        end = monotonic() + seconds
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=self.url, limits=limits, timeout=60) as client:
            kinds: Mapping[str, Callable[[httpx.AsyncClient], Awaitable[None]]] = {
                "valid": self._valid,
                "again": self._again,
                "invalid": self._invalid,
                "huge": self._huge,
                "slow": self._slow,
                "aborted": self._aborted,
                "reading": self._reading,
                "ordinary": self._ordinary,
                "hostile": self._hostile,
            }
            async with asyncio.TaskGroup() as group:
                for ask in kinds.values():
                    for _ in range(2):
                        group.create_task(self._repeat(ask, client, end))

    async def _repeat(
        self,
        ask: Callable[[httpx.AsyncClient], Awaitable[None]],
        client: httpx.AsyncClient,
        end: float,
    ) -> None:
        while monotonic() < end:
            await ask(client)
            await asyncio.sleep(PAUSE_SECONDS * self.chance.random())

    async def _post(
        self, kind: str, client: httpx.AsyncClient, path: str, content: bytes | AsyncIterator[bytes]
    ) -> None:
        answer = await client.post(path, content=content, headers=JSON)
        self.outcomes.note(kind, answer.status_code, answer.content)

    async def _valid(self, client: httpx.AsyncClient) -> None:
        """A job that was not asked before, to any operation."""
        path = self.chance.choice(OPERATIONS)
        body = asked_by(path, [self._job() for _ in range(4)])
        await self._post("valid", client, path, json.dumps(body).encode())

    async def _ordinary(self, client: httpx.AsyncClient) -> None:
        """A question of which nothing may fail, whatever others ask meanwhile."""
        path, body = self.chance.choice(ORDINARY)
        begun = monotonic()
        answer = await client.post(path, json=body)
        self.outcomes.ordinary_seconds.append(monotonic() - begun)
        self.outcomes.statuses["ordinary", answer.status_code] += 1
        if answer.status_code != 200:
            self.outcomes.faults.append(f"ordinary: {path}: {answer.text[:200]}")

    async def _hostile(self, client: httpx.AsyncClient) -> None:
        """What would take gigabytes or minutes, were it not bounded."""
        path, body = self.chance.choice(list(HOSTILE.values()))
        await self._post("hostile", client, path, json.dumps(body).encode())

    async def _again(self, client: httpx.AsyncClient) -> None:
        await self._post("again", client, "/v1/estimate", json.dumps(LLAMA_8B).encode())

    async def _invalid(self, client: httpx.AsyncClient) -> None:
        """What is no job, or no JSON, or no path."""
        noise = self.chance.randbytes(64)
        bodies = [
            noise,
            b"[" * 10_000,
            b'{"model": {"hf_id": "nobody/%s"}}' % noise.hex().encode(),
            json.dumps({**LLAMA_8B, "gpu": noise.hex()}).encode(),
            json.dumps({**LLAMA_8B, noise.hex(): noise.hex()}).encode(),
            json.dumps({**LLAMA_8B, "parallelism": {"tp": 7, "pp": 5}}).encode(),
        ]
        path = self.chance.choice((*OPERATIONS, f"/v1/{noise.hex()}"))
        await self._post("invalid", client, path, self.chance.choice(bodies))

    async def _huge(self, client: httpx.AsyncClient) -> None:
        """More bytes than are read, announced or not."""

        async def in_parts() -> AsyncIterator[bytes]:
            for _ in range(TOO_LONG // 50_000):
                yield b" " * 50_000

        content = self.chance.choice((b" " * TOO_LONG, in_parts()))
        await self._post("huge", client, self.chance.choice(OPERATIONS), content)
        await asyncio.sleep(10 * PAUSE_SECONDS)

    async def _slow(self, client: httpx.AsyncClient) -> None:
        """A body that comes byte by byte, until the service has had enough and hangs up."""
        reader, writer = await self._begun(client, self.chance.choice(OPERATIONS), 1_000_000)
        told = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
        while not told.done():
            writer.write(b" ")
            await asyncio.sleep(0.1)
        status = int((await told).split()[1])
        self.outcomes.note("slow", status, await reader.readuntil(b"}"))
        writer.transport.abort()

    async def _aborted(self, client: httpx.AsyncClient) -> None:
        """A request that is given up in the middle of its body, or before its answer."""
        body = json.dumps(asked_by("/v1/compare", [self._job() for _ in range(16)])).encode()
        _, writer = await self._begun(client, "/v1/compare", len(body))
        writer.write(body[: self.chance.choice((0, 100, len(body)))])
        await asyncio.sleep(PAUSE_SECONDS * self.chance.random())
        writer.transport.abort()
        self.outcomes.statuses["aborted", 0] += 1
        await asyncio.sleep(5 * PAUSE_SECONDS)

    async def _begun(
        self, client: httpx.AsyncClient, path: str, length: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A request up to its body."""
        host, port = client.base_url.host, client.base_url.port
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n\r\n".encode()
        )
        return reader, writer

    async def _reading(self, client: httpx.AsyncClient) -> None:
        """Catalogues, pages and probes."""
        paths = ("/v1/models", "/v1/gpus", "/openapi.json", "/docs", "/readyz", "/problems/nothing")
        answer = await client.get(self.chance.choice(paths))
        self.outcomes.note("reading", answer.status_code, answer.content)

    def _job(self) -> dict[str, Any]:
        job = self.chance.choice((LLAMA_8B, DEEPSEEK_V3))
        training = {**job["training"], "seq_length": 8 * self.chance.randint(64, 4096)}
        if self.chance.random() < 0.5:
            return {"model": {"hf_id": self.chance.choice(self.models)}, "training": training}
        return {**job, "training": training}


def asked_by(path: str, jobs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """A body for the operation at this path."""
    if path in ("/v1/estimate", "/v1/fit-check"):
        return {**jobs[0], "gpu": "H100-80GB"}
    return {"jobs": [{"id": str(number), "job": job} for number, job in enumerate(jobs)]}

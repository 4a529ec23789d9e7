"""A Hub on a real socket that misbehaves as it is told."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER_COMMIT = "fedcba9876543210fedcba9876543210fedcba98"
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
}
FILE = re.compile(r"/(?P<repo>.+)/resolve/(?P<revision>[^/]+)/(?P<file>[^/]+)")
NEVER = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked."""

    path: str
    headers: Mapping[str, str]

    @property
    def repo(self) -> str:
        return self._part("repo")

    @property
    def revision(self) -> str:
        return unquote(self._part("revision"))

    @property
    def file(self) -> str:
        return self._part("file")

    def _part(self, name: str) -> str:
        found = FILE.fullmatch(self.path)
        return found[name] if found is not None else ""


Writer = asyncio.StreamWriter
Answer = Callable[[Request, Writer], Awaitable[None]]
"""Writes a response, or whatever it pleases."""


@dataclass
class FakeHub:
    """The models that it has by their ids, and what it was asked."""

    url: str
    models: dict[str, Answer] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def asked(self, repo: str, file: str = "config.json") -> int:
        """How often a file was asked for."""
        return sum((each.repo, each.file) == (repo, file) for each in self.requests)

    async def answer(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                request_line, *lines = head.strip().split("\r\n")
                pairs = (line.partition(":") for line in lines)
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                request = Request(request_line.split()[1], headers)
                self.requests.append(request)
                await self.models.get(request.repo or request.path, repo_not_found)(request, writer)
                await writer.drain()
                if writer.is_closing():
                    return
        writer.close()


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    """A hub in a thread of its own, on a free port."""
    loop = asyncio.new_event_loop()
    hub = FakeHub("")
    server = loop.run_until_complete(asyncio.start_server(hub.answer, "127.0.0.1", 0))
    hub.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    thread = Thread(target=loop.run_forever)
    thread.start()

    async def stop() -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    try:
        yield hub
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def response(status: int, body: bytes = b"", /, **headers: str) -> bytes:
    """A response, with its length unless that is given."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    fields = {"content-length": str(len(body)), **given}
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {each}" for name, each in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def says(status: int, body: bytes = b"", /, **headers: str) -> Answer:
    """One that always says the same."""

    async def answer(_: Request, writer: Writer) -> None:
        writer.write(response(status, body, **headers))

    return answer


def one_after_another(*answers: Answer) -> Answer:
    """One that says each once, and the last for ever."""
    left = list(answers)

    async def answer(request: Request, writer: Writer) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(request, writer)

    return answer


def model(config: Any = LLAMA, commit: str = COMMIT, *, file: str = "config.json") -> Answer:
    """A repository with one file, of one commit under every revision."""
    body = config if isinstance(config, bytes) else json.dumps(config).encode()

    async def answer(request: Request, writer: Writer) -> None:
        if request.file == file:
            writer.write(response(200, body, x_repo_commit=commit, content_type="text/plain"))
        else:
            writer.write(response(404, x_error_code="EntryNotFound", x_repo_commit=commit))

    return answer


def only_for(token: str, shown: Answer, refusal: Answer) -> Answer:
    """One that is shown to who has the token."""

    async def answer(request: Request, writer: Writer) -> None:
        allowed = request.headers.get("authorization") == f"Bearer {token}"
        await (shown if allowed else refusal)(request, writer)

    return answer


def slow_headers(seconds: float = NEVER, then: Answer | None = None) -> Answer:
    async def answer(request: Request, writer: Writer) -> None:
        await asyncio.sleep(seconds)
        await (then or model())(request, writer)

    return answer


def once(event: Event) -> Answer:
    """One that answers when this has happened."""

    async def answer(request: Request, writer: Writer) -> None:
        while not event.is_set():
            await asyncio.sleep(0.01)
        await model()(request, writer)

    return answer


async def slow_body(_: Request, writer: Writer) -> None:
    whole = response(200, json.dumps(LLAMA).encode(), x_repo_commit=COMMIT)
    writer.write(whole[:-10])
    await writer.drain()
    await asyncio.sleep(NEVER)


async def dripping_body(_: Request, writer: Writer) -> None:
    """A byte now and then, so that no wait for one is long."""
    writer.write(response(200, content_length="100000", x_repo_commit=COMMIT))
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def truncated(_: Request, writer: Writer) -> None:
    writer.write(response(200, json.dumps(LLAMA).encode(), x_repo_commit=COMMIT)[:-10])
    await writer.drain()
    writer.close()


async def reset(_: Request, writer: Writer) -> None:
    """The connection breaks off at once."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def gzipped(body: bytes, **headers: str) -> Answer:
    """What is packed when it is asked for: a bomb takes a while."""

    async def answer(request: Request, writer: Writer) -> None:
        packed = gzip.compress(body, compresslevel=1)
        packed_says = says(200, packed, content_encoding="gzip", x_repo_commit=COMMIT, **headers)
        await packed_says(request, writer)

    return answer


repo_not_found = says(401, b"{}", x_error_code="RepoNotFound")
gated = says(401, b"{}", x_error_code="GatedRepo")

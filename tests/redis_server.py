"""A Redis of one's own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.programs import needed
from tests.serving import free_port

START_SECONDS = 10


@dataclass
class RedisServer:
    """A server that can be killed and started again on the same port, with what it had saved."""

    program: str
    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        options = ["--port", str(self.port), "--dir", str(self.folder), "--appendonly", "yes"]
        options += ["--bind", "127.0.0.1", "--appendfsync", "always", "--loglevel", "warning"]
        self.process = subprocess.Popen([self.program, *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        with self.client() as client:
            while time.monotonic() < deadline:
                with suppress(RedisConnectionError):
                    client.ping()
                    return
                time.sleep(0.02)
        raise TimeoutError("redis-server does not start")

    def client(self) -> Redis:
        return Redis.from_url(self.url, socket_timeout=5)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def running_redis(folder: Path) -> Iterator[RedisServer]:
    """A server with its files in this folder."""
    server = RedisServer(needed("redis-server", package="redis-server"), folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()

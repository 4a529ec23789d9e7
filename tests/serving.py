"""The service in a process of its own, as an operator runs it."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.forking import ForkedProcess, fork_service

SERVE = "from trainfit.api.server import serve; from trainfit.api.settings import ServiceSettings; "
START_SECONDS = 120
UNHURRIED = {"TRAINFIT_REQUEST_TIMEOUT_SECONDS": "120", "TRAINFIT_WORKER_CPU_SECONDS": "60"}
"""So that no answer is cut because much else runs on the machine."""


@dataclass(frozen=True, slots=True)
class Service:
    """A running service; its log goes to the process's standard error."""

    url: str
    process: subprocess.Popen[str] | ForkedProcess


@contextmanager
def running_service(log: Path | None = None, /, **environment: str) -> Iterator[Service]:
    """Have a service on a free port, wait until it is ready, and stop it at the end. It is forked
    from one that has loaded all.

    It logs to a pipe unless a file is given, and what finds no room in it is dropped.
    """
    port = free_port()
    process = start({"TRAINFIT_PORT": str(port), **environment}, log)
    with _until_stopped(f"http://127.0.0.1:{port}", process) as service:
        yield service


@contextmanager
def started_service(log: Path | None = None, /, **environment: str) -> Iterator[Service]:
    """The same of a process that loads what it needs: where what it holds is measured."""
    port = free_port()
    with nullcontext(subprocess.PIPE) if log is None else log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", f"{SERVE} serve(ServiceSettings())"],
            env={**os.environ, "TRAINFIT_PORT": str(port), **environment},
            stderr=stderr,
            text=True,
        )
    with _until_stopped(f"http://127.0.0.1:{port}", process) as service:
        yield service


@contextmanager
def _until_stopped(url: str, process: subprocess.Popen[str] | ForkedProcess) -> Iterator[Service]:
    try:
        wait_until_ready(url, process)
        yield Service(url, process)
    finally:
        process.terminate()
        process.wait(timeout=START_SECONDS)
        if process.stderr is not None:
            process.stderr.close()


def start(environment: dict[str, str], log: Path | None = None) -> ForkedProcess:
    """A process that serves with these variables added to the environment."""
    with nullcontext() if log is None else log.open("wb") as stderr:
        variables = {**os.environ, **environment}
        return fork_service(variables, None if stderr is None else stderr.fileno())


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_until_ready(
    url: str, process: subprocess.Popen[str] | ForkedProcess, trust: ssl.SSLContext | None = None
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "the service has stopped"
        try:
            if httpx.get(f"{url}/readyz", verify=trust or True).status_code == 200:
                return
        except httpx.ConnectError:
            time.sleep(0.05)
    raise TimeoutError(url)


def wait_for_requests(service: Service, number: int) -> None:
    """Wait until so many requests are under way, those among them whose bodies are being sent."""
    deadline = time.monotonic() + START_SECONDS
    while f"in_flight {number:.1f}" not in httpx.get(f"{service.url}/metrics").text:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def connected(service: Service) -> Iterator[socket.socket]:
    """A connection on which nothing was sent yet."""
    port = httpx.URL(service.url).port
    assert port is not None
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        yield connection


def rest(connection: socket.socket) -> bytes:
    """All that the service says until it hangs up."""
    parts = []
    with suppress(ConnectionError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)

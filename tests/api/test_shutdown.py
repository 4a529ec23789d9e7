"""A service that is told to stop loses no request."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPResponse

import httpx
import pytest

from tests.serving import Service, running_service, wait_for_requests
from trainfit.api.examples import LLAMA_8B

BODY = json.dumps(LLAMA_8B).encode()
HEAD = (
    "POST /v1/estimate HTTP/1.1\r\nHost: service\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(BODY)}\r\n\r\n"
).encode()


@contextmanager
def half_sent(service: Service) -> Iterator[socket.socket]:
    """A request that is under way: the second half of its body is not sent yet."""
    port = httpx.URL(service.url).port
    assert port is not None
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(HEAD + BODY[:20])
        wait_for_requests(service, 1)
        yield connection


def answer(connection: socket.socket) -> int:
    """The status of the answer to the other half."""
    connection.sendall(BODY[20:])
    response = HTTPResponse(connection)
    response.begin()
    assert response.getheader("connection") == "close"
    assert json.loads(response.read())["stages"]
    return response.status


def says_that_it_stops(service: Service) -> None:
    """Wait for that: a signal is taken when the service next looks up."""
    deadline = time.monotonic() + 10
    while (ready := httpx.get(f"{service.url}/readyz")).status_code == 200:
        assert time.monotonic() < deadline
    assert (ready.status_code, ready.text) == (503, "stopping")


def leaves(service: Service) -> None:
    """Wait until it takes no more connections: one is refused, or one that waited to be taken is
    reset as the socket that listens is closed.
    """
    deadline = time.monotonic() + 10
    with suppress(httpx.ConnectError, httpx.ReadError):
        while True:
            httpx.get(f"{service.url}/livez")
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_it_says_that_it_is_not_ready_answers_on_and_then_leaves() -> None:
    with running_service(TRAINFIT_SHUTDOWN_DELAY_SECONDS="2") as service:
        with half_sent(service) as slow:
            service.process.send_signal(signal.SIGTERM)
            says_that_it_stops(service)
            assert httpx.get(f"{service.url}/livez").status_code == 200
            late = httpx.post(f"{service.url}/v1/estimate", json=LLAMA_8B)
            assert (late.status_code, late.headers["connection"]) == (200, "close")
            leaves(service)
            assert answer(slow) == 200
        assert service.process.wait(timeout=10) == 0


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_without_a_delay_it_leaves_after_the_last_request(name: str) -> None:
    with running_service() as service:
        with half_sent(service) as slow:
            service.process.send_signal(getattr(signal, name))
            time.sleep(0.5)
            assert service.process.poll() is None
            assert answer(slow) == 200
        assert service.process.wait(timeout=10) == 0


def test_a_request_that_does_not_end_is_given_up_after_the_grace() -> None:
    with (
        running_service(TRAINFIT_SHUTDOWN_GRACE_SECONDS="1") as service,
        half_sent(service) as slow,
    ):
        service.process.send_signal(signal.SIGTERM)
        assert slow.recv(65_536).startswith(b"HTTP/1.1 503")
        assert service.process.wait(timeout=10) == 0


def test_told_twice_it_does_not_wait_for_the_delay() -> None:
    with running_service(TRAINFIT_SHUTDOWN_DELAY_SECONDS="60") as service:
        service.process.send_signal(signal.SIGTERM)
        says_that_it_stops(service)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(timeout=10) == 0

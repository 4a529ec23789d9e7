"""A body that nobody reads does not keep a connection open, and costs no client its answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest

from tests.serving import Service, connected, rest, running_service
from trainfit.api.api_keys import named, new_key
from trainfit.api.unread_bodies import LINGER_SECONDS

MAX_BODY_BYTES = 100_000


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with running_service(
        TRAINFIT_LOG_LEVEL="error",
        TRAINFIT_MAX_BODY_BYTES=str(MAX_BODY_BYTES),
        TRAINFIT_BODY_TIMEOUT_SECONDS="0.5",
    ) as service:
        yield service


@contextmanager
def sending(service: Service, request_line: str, *headers: str) -> Iterator[socket.socket]:
    """A connection on which such a request was begun."""
    lines = (f"{request_line} HTTP/1.1", "Host: service", *headers, "", "")
    with connected(service) as connection:
        connection.sendall("\r\n".join(lines).encode())
        yield connection


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("POST /livez", 405),
        ("POST /metrics", 405),
        ("POST /docs", 405),
        ("POST /nowhere", 404),
        ("GET /v1/gpus", 200),
        ("POST /v1/gpus", 405),
        ("POST /v1/estimate", 408),
        ("POST /v1/fit-check", 408),
        ("POST /v1/estimate:batch", 408),
        ("POST /v1/compare", 408),
    ],
)
def test_a_body_that_never_ends_is_answered_and_hung_up_on(
    service: Service, request_line: str, status: int
) -> None:
    headers = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    with sending(service, request_line, *headers) as connection:
        done = threading.Event()

        def drip() -> None:
            with suppress(OSError):
                while not done.wait(0.05):
                    connection.sendall(b"1\r\n \r\n")

        dripping = threading.Thread(target=drip)
        dripping.start()
        begin = time.monotonic()
        answer = rest(connection)
        seconds = time.monotonic() - begin
        done.set()
        dripping.join()
    assert answer.split()[1] == str(status).encode()
    assert b"\r\nconnection: close\r\n" in answer
    assert seconds < LINGER_SECONDS + 2


@pytest.mark.parametrize("path", ["/v1/estimate", "/v1/compare", "/nowhere", "/livez"])
@pytest.mark.parametrize("announced", [True, False])
def test_a_client_that_sends_too_much_gets_its_answer(
    service: Service, path: str, announced: bool
) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * MAX_BODY_BYTES

    content = b" " * (100 * MAX_BODY_BYTES) if announced else parts()
    headers = {"content-type": "application/json"}
    answer = httpx.post(f"{service.url}{path}", content=content, headers=headers)
    assert answer.status_code == {"/nowhere": 404, "/livez": 405}.get(path, 413)
    assert answer.json()["status"] == answer.status_code


def test_who_asks_first_whether_to_send_is_not_asked_for_the_body(service: Service) -> None:
    headers = ("Content-Type: application/json", "Content-Length: 1000000", "Expect: 100-continue")
    with sending(service, "POST /v1/estimate", *headers) as connection:
        assert rest(connection).split()[1] == b"413"


def test_a_short_body_that_nobody_reads_costs_no_connection() -> None:
    keys = str(named("ci", new_key()))
    with running_service(TRAINFIT_API_KEYS=keys) as service, httpx.Client() as client:
        for path in ("/v1/estimate", "/nowhere", "/livez"):
            answer = client.post(f"{service.url}{path}", json={"model": {}})
            assert answer.status_code in (401, 404, 405)
            assert "connection" not in answer.headers

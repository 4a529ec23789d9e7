"""A connection costs the service nothing for long, whatever is sent on it or is not."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest

from tests.serving import Service, running_service
from trainfit.api.connection import MAX_HEAD_BYTES

SECONDS = 0.5
REQUEST = b"GET /livez HTTP/1.1\r\nHost: service\r\n"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with running_service(
        TRAINFIT_LOG_LEVEL="error", TRAINFIT_BODY_TIMEOUT_SECONDS=str(SECONDS)
    ) as service:
        yield service


@contextmanager
def connected(service: Service) -> Iterator[socket.socket]:
    port = httpx.URL(service.url).port
    assert port is not None
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        yield connection


def answered(connection: socket.socket) -> bytes:
    """The answer to one request without a body to speak of."""
    answer = b""
    while not answer.endswith(b"ok"):
        part = connection.recv(65_536)
        assert part, "hung up"
        answer += part
    return answer


def rest(connection: socket.socket) -> bytes:
    """All that the service says until it hangs up."""
    parts = []
    with suppress(ConnectionError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    ("first", "drip"),
    [
        (b"", b""),
        (b"", b"\r\n"),
        (b"GET /li", b""),
        (REQUEST, b""),
        (REQUEST, b"a: b\r\n"),
        (REQUEST + b"cookie: ", b"x"),
    ],
)
@pytest.mark.parametrize("used", [False, True])
def test_a_head_that_does_not_end_is_hung_up_on(
    service: Service, first: bytes, drip: bytes, used: bool
) -> None:
    with connected(service) as connection:
        if used:
            connection.sendall(REQUEST + b"\r\n")
            answered(connection)
            if not first:
                first = b"\r\n"  # nothing at all is for uvicorn's own time limit
        connection.sendall(first)
        done = threading.Event()

        def dripping() -> None:
            with suppress(OSError):
                while drip and not done.wait(0.05):
                    connection.sendall(drip)

        dripper = threading.Thread(target=dripping)
        dripper.start()
        begin = time.monotonic()
        assert rest(connection) == b""
        seconds = time.monotonic() - begin
        done.set()
        dripper.join()
    assert SECONDS / 2 < seconds < SECONDS + 2


def test_a_head_in_parts_is_waited_for_and_time_begins_anew_with_each(service: Service) -> None:
    with connected(service) as connection:
        for _ in range(4):
            for part in (REQUEST[:9], REQUEST[9:], b"\r\n"):
                connection.sendall(part)
                time.sleep(SECONDS / 4)
            assert answered(connection).startswith(b"HTTP/1.1 200")


def test_a_body_that_lags_behind_its_head_is_not_hung_up_on(service: Service) -> None:
    head = b"POST /livez HTTP/1.1\r\nHost: service\r\nContent-Length: 2\r\n\r\n"
    with connected(service) as connection:
        connection.sendall(head + b"{")
        time.sleep(2 * SECONDS)
        connection.sendall(b"}")
        assert b"HTTP/1.1 405" in rest(connection)


@pytest.mark.parametrize("part", [b"a: b\r\n", b"x"])
def test_a_head_that_is_too_long_is_refused_before_its_time_is_up(part: bytes) -> None:
    with (
        running_service(TRAINFIT_BODY_TIMEOUT_SECONDS="60") as patient,
        connected(patient) as connection,
    ):
        connection.sendall(REQUEST + b"cookie: ")
        sent = 0
        with suppress(ConnectionError):
            while True:
                sent += connection.send(part * 4096)
    assert MAX_HEAD_BYTES < sent < 100_000_000


def test_who_sends_too_long_a_head_and_listens_is_told(service: Service) -> None:
    with connected(service) as connection:
        connection.sendall(REQUEST + b"cookie: " + b"x" * MAX_HEAD_BYTES)
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.endswith(b"The head of the request is too long.")


def test_requests_in_one_packet_are_answered_in_turn(service: Service) -> None:
    """As many as are together longer than one head may be."""
    with connected(service) as connection:
        number = MAX_HEAD_BYTES // len(REQUEST) + 100
        connection.sendall((REQUEST + b"\r\n") * number)
        answer = b""
        while answer.count(b"HTTP/1.1 200") < number:
            part = connection.recv(1_000_000)
            assert part
            answer += part

"""A connection costs the service nothing for long, whatever is sent on it or is not."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.processes import resident_bytes
from tests.serving import Service, connected, rest, running_service, wait_for_requests
from trainfit.api.connection import MAX_HEAD_BYTES
from trainfit.api.examples import LLAMA_8B

SECONDS = 0.5
REQUEST = b"GET /livez HTTP/1.1\r\nHost: service\r\n"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with running_service(
        TRAINFIT_LOG_LEVEL="error", TRAINFIT_BODY_TIMEOUT_SECONDS=str(SECONDS)
    ) as service:
        yield service


def answered(connection: socket.socket) -> bytes:
    """The answer to one request without a body to speak of."""
    answer = b""
    while not answer.endswith(b"ok"):
        part = connection.recv(65_536)
        assert part, "hung up"
        answer += part
    return answer


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


def connections(service: Service) -> int:
    """How many files the service has open, its connections among them."""
    return len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))


def test_an_answer_that_is_not_taken_is_given_up_and_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running_service(
        log, TRAINFIT_LOG_LEVEL="error", TRAINFIT_BODY_TIMEOUT_SECONDS=str(SECONDS)
    ) as service:
        leave_unread(service)
    assert log.read_text() == ""


def leave_unread(service: Service) -> None:
    """Ask for more than a connection holds, and read nothing before it was given up."""
    number = 64
    before = connections(service)
    with connected(service) as connection:
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: service\r\n\r\n" * number)
        connection.recv(1)
        deadline = time.monotonic() + 30
        while connections(service) > before:
            assert time.monotonic() < deadline
            time.sleep(SECONDS / 10)
        assert rest(connection).count(b"HTTP/1.1 200") < number


def test_an_answer_that_is_taken_slowly_is_sent_to_its_end(service: Service) -> None:
    number = 64
    with connected(service) as connection:
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: service\r\n\r\n" * number)
        answers = 0
        begin = time.monotonic()
        while answers < number:
            part = connection.recv(500_000)
            assert part
            answers += part.count(b"HTTP/1.1 200")
            time.sleep(SECONDS / 20)
    assert time.monotonic() - begin > 2 * SECONDS


def test_trailers_take_no_memory() -> None:
    head = (
        b"POST /v1/estimate HTTP/1.1\r\nHost: service\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    )
    with (
        running_service(TRAINFIT_BODY_TIMEOUT_SECONDS="60") as patient,
        connected(patient) as connection,
    ):
        before = resident_bytes(patient.process.pid)
        connection.sendall(head)
        for _ in range(300):
            connection.sendall(b"a: b\r\n" * 10_000)
        connection.sendall(b"\r\n")
        assert b"HTTP/1.1 400" in connection.recv(65_536)  # an empty body
        assert resident_bytes(patient.process.pid) - before < 50 * 2**20


def test_there_are_no_web_sockets(service: Service) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"
    with connected(service) as connection:
        connection.sendall(REQUEST + upgrade)
        assert answered(connection).startswith(b"HTTP/1.1 200")


BODY = json.dumps(LLAMA_8B).encode()
HEAD = (
    b"POST /v1/estimate HTTP/1.1\r\nHost: service\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
)


def test_bodies_that_are_on_their_way_keep_nobody_out() -> None:
    with running_service(TRAINFIT_MAX_CONCURRENT_REQUESTS="2") as few, ExitStack() as stack:
        slow = [stack.enter_context(connected(few)) for _ in range(10)]
        for connection in slow:
            connection.sendall(HEAD % len(BODY) + BODY[:-1])
        assert httpx.post(f"{few.url}/v1/estimate", json=LLAMA_8B).status_code == 200
        for connection in slow:
            connection.sendall(BODY[-1:])
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


def test_bodies_that_are_on_their_way_have_bounded_memory() -> None:
    with (
        running_service(
            TRAINFIT_MAX_CONCURRENT_REQUESTS="2", TRAINFIT_MAX_BODY_BYTES="1000"
        ) as small,
        ExitStack() as stack,
    ):
        slow = [stack.enter_context(connected(small)) for _ in range(3)]
        for connection in slow[:2]:
            connection.sendall(HEAD % 1000 + b" " * 900)
        wait_for_requests(small, 2)
        slow[2].sendall(HEAD % 1000 + b" " * 300)
        assert slow[2].recv(65_536).startswith(b"HTTP/1.1 503")
        slow[0].sendall(b" " * 100)
        assert slow[0].recv(65_536).startswith(b"HTTP/1.1 400")
        assert httpx.post(f"{small.url}/v1/estimate", json=LLAMA_8B).status_code == 200

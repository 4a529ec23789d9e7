"""The log waits for nobody: not for a pipe that nobody reads, and not for its end."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import TextIO, cast

import httpx
import pytest
import structlog
from structlog.processors import JSONRenderer
from structlog.testing import capture_logs

from tests.serving import running_service
from trainfit.api import log_writer
from trainfit.api.log_writer import ROOM, UNRENDERED, LogWriter

pytestmark = pytest.mark.alone

LOGGED_BYTES = 250
"""Of a request, at least."""
AT_ONCE = 100
GRACE = 3


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def read_all(descriptor: int, size: int) -> bytes:
    """So many bytes of a pipe."""
    found = b""
    while len(found) < size:
        found += os.read(descriptor, size - len(found))
    return found


def test_nothing_is_lost_and_the_order_stays(pipe: tuple[int, int]) -> None:
    reader, descriptor = pipe
    writer = LogWriter(descriptor)
    entries = [f"{number:099d}\n" for number in range(10_000)]
    for number, entry in enumerate(entries):
        if number % 100:
            writer.write(entry)
        else:
            writer.write_later(entry.__str__)
    assert read_all(reader, 1_000_000).decode() == "".join(entries)
    writer.drain(5)
    assert writer.dropped == 0


def test_what_finds_no_room_is_dropped_and_told_of_once_it_is_read(pipe: tuple[int, int]) -> None:
    reader, descriptor = pipe
    writer = LogWriter(descriptor)
    entry = f"{'x' * 9_999}\n"
    kept = ROOM // len(entry)
    with capture_logs() as said:
        for _ in range(1_000):
            writer.write(entry)
        assert writer.dropped == 1_000 - kept
        assert said == []
        assert read_all(reader, kept * len(entry)).count(b"\n") == kept
        writer.drain(5)
        writer.write("again\n")
        assert read_all(reader, 6) == b"again\n"
        writer.drain(5)
    assert [each["entries"] for each in said] == [1_000 - kept]


def test_entries_that_are_put_together_later_take_room_meanwhile(pipe: tuple[int, int]) -> None:
    reader, descriptor = pipe
    writer = LogWriter(descriptor)
    writer.write("x" * 100_000)
    read_all(reader, 1)  # the thread is at it, and stays there
    room = (ROOM - 100_000) // UNRENDERED
    for _ in range(room + 10):
        writer.write_later("later\n".__str__)
    assert writer.dropped == 10
    assert read_all(reader, 99_999 + room * 6).endswith(b"later\n")
    writer.drain(5)
    writer.write_later("again\n".__str__)
    assert read_all(reader, 6) == b"again\n"
    assert writer.dropped == 10


def test_what_it_tells_of_finds_room_where_nothing_else_does(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, descriptor = pipe
    writer = LogWriter(descriptor)
    logger = structlog.wrap_logger(structlog.WriteLogger(cast(TextIO, writer)), [JSONRenderer()])
    monkeypatch.setattr(log_writer, "log", logger)
    entry = f"{'x' * 99_999}\n"
    writer.write(entry)
    read_all(reader, 1)  # the thread is at it, and stays there
    kept = ROOM // len(entry)
    for _ in range(kept):
        writer.write(entry)
    writer.write("y" * (ROOM - kept * len(entry) - 10))
    assert writer.dropped == 1
    assert len(read_all(reader, ROOM - 11)) == ROOM - 11
    assert json.loads(os.read(reader, 1_000))["entries"] == 1
    assert writer.dropped == 1


def test_an_end_waits_for_a_reader_but_not_for_ever(pipe: tuple[int, int]) -> None:
    reader, descriptor = pipe
    writer = LogWriter(descriptor)
    writer.write("x" * 100_000)
    begun = time.monotonic()
    writer.drain(0.2)
    assert 0.2 <= time.monotonic() - begun < 1
    late = threading.Timer(0.2, read_all, (reader, 100_000))
    late.start()
    writer.drain(10)
    assert time.monotonic() - begun < 5
    late.join()  # lest it read what comes through the next pipe of this number


def test_a_pipe_that_does_not_block_is_waited_for(pipe: tuple[int, int]) -> None:
    reader, descriptor = pipe
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_NONBLOCK)
    writer = LogWriter(descriptor)
    writer.write("x" * 1_000_000)
    assert len(read_all(reader, 1_000_000)) == 1_000_000
    writer.drain(5)
    assert writer.dropped == 0


def test_a_reader_that_is_gone_is_no_error() -> None:
    reader, descriptor = os.pipe()
    os.close(reader)
    writer = LogWriter(descriptor)
    for written in range(1, 4):
        writer.write("nobody reads this\n")
        writer.drain(5)
        assert writer.dropped == written
    os.close(descriptor)


def ask_often(url: str, times: int) -> None:
    """Requests that each leave an entry of LOGGED_BYTES or more in the log."""
    request = f"GET /v1/none HTTP/1.1\r\nHost: service\r\nX-Request-Id: {'x' * 64}\r\n\r\n".encode()
    address = httpx.URL(url)
    assert address.port is not None
    with socket.create_connection((address.host, address.port), timeout=5) as connection:
        for _ in range(times // AT_ONCE):
            connection.sendall(request * AT_ONCE)
            left = AT_ONCE
            with connection.makefile("rb") as answers:
                while left:
                    line = answers.readline()  # a status follows a body without a line's end
                    assert line
                    left -= b"HTTP/1.1 404" in line


def dropped(url: str) -> int:
    """How many entries a service has dropped, by its metrics."""
    pattern = r"^trainfit_log_entries_dropped_total (\S+)$"
    counted = re.search(pattern, httpx.get(f"{url}/metrics").text, re.MULTILINE)
    assert counted
    return int(float(counted[1]))


def test_a_service_whose_log_nobody_reads_answers_and_says_what_it_dropped() -> None:
    with running_service() as service:
        asked = 5 * ROOM // (4 * LOGGED_BYTES) // AT_ONCE * AT_ONCE
        ask_often(service.url, asked)
        assert httpx.get(f"{service.url}/livez", timeout=1).status_code == 200
        missing = dropped(service.url)
        assert 0 < missing < asked
        assert service.process.stderr is not None
        entries = map(json.loads, iter(service.process.stderr.readline, ""))
        events: list[str] = []
        for entry in entries:
            if entry["event"] == "entries of the log were dropped":
                break
            events.append(entry["event"])
        assert events.count("request") == asked - missing
        assert entry["entries"] == missing


def test_a_service_whose_log_nobody_reads_ends_within_the_grace() -> None:
    with running_service(TRAINFIT_SHUTDOWN_GRACE_SECONDS=str(GRACE)) as service:
        ask_often(service.url, 2 * ROOM // LOGGED_BYTES)
        service.process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        assert service.process.wait(timeout=GRACE) == 0
        assert time.monotonic() - begun < GRACE

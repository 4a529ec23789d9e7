"""Processes of the service, forked from one that has loaded it: most of a start is imports."""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

from trainfit.api.server import serve
from trainfit.api.settings import Settings

ROOT = Path(__file__).parents[1]
LONGEST = 1 << 20
"""Bytes of an environment."""


class ForkedProcess:
    """What tests ask of a process that they have started, as `subprocess.Popen` answers it."""

    def __init__(self, pid: int, status: socket.socket, stderr: IO[str] | None) -> None:
        self.pid = pid
        self.stderr = stderr
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Its exit status, if it has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended. Raises TimeoutExpired."""
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                self.returncode = int(self._status.recv(16))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        """What it still says, once it has ended. Raises TimeoutExpired."""
        said = ""
        if self.stderr is not None:
            with self.stderr as stderr:
                said = stderr.read()
        self.wait(timeout)
        return None, said


def fork_service(environment: dict[str, str], stderr: int | None) -> ForkedProcess:
    """A process that serves with this environment. What it says goes to a file, or to a pipe."""
    ours, theirs = socket.socketpair()
    reading, writing = (None, stderr) if stderr is not None else os.pipe()
    request = json.dumps({"environment": environment, "folder": os.getcwd()}).encode()
    channel = _loaded()
    socket.send_fds(channel, [request], [theirs.fileno(), writing])
    theirs.close()
    if reading is None:
        return ForkedProcess(int(channel.recv(16)), ours, None)
    os.close(writing)
    return ForkedProcess(int(channel.recv(16)), ours, os.fdopen(reading, encoding="utf-8"))


@cache
def _loaded() -> socket.socket:
    """The way to a process that has loaded the service, and ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", f"from tests.forking import fork; fork({theirs.fileno()})"],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def fork(channel: int) -> None:
    """Fork a process of the service for each request that comes, until none can."""
    requests = socket.socket(fileno=channel)
    ended, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno())
    statuses: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as waiting:
        waiting.register(requests, selectors.EVENT_READ)
        waiting.register(ended, selectors.EVENT_READ)
        while True:
            for ready, _ in waiting.select():
                if ready.fileobj is ended:
                    ended.recv(4096)
                    _tell(statuses)
                    continue
                request, descriptors, _, _ = socket.recv_fds(requests, LONGEST, 2)
                if not request:
                    return
                status = socket.socket(fileno=descriptors[0])
                pid = os.fork()
                if pid == 0:
                    _serve(request, descriptors[1])
                os.close(descriptors[1])
                statuses[pid] = status
                requests.send(str(pid).encode())


def _tell(statuses: dict[int, socket.socket]) -> None:
    """Tell whoever asked for them of the processes that have ended."""
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with statuses.pop(pid) as asked:
            try:
                asked.send(str(os.waitstatus_to_exitcode(status)).encode())
            except OSError:  # nobody waits for it any more
                continue


def _serve(request: bytes, stderr: int) -> NoReturn:
    """Be the service, as `trainfit serve` is."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked = json.loads(request)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    os.dup2(stderr, 2)
    os.closerange(3, 256)
    time.tzset()
    code = 1
    try:
        serve(Settings())
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

"""Processes of the service and of the command line, forked from one that has loaded both: most of
a start is imports.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any, NoReturn

from trainfit.api.server import serve
from trainfit.api.settings import ServiceSettings
from trainfit.api.warming import warm
from trainfit.cli import main

ROOT = Path(__file__).parents[1]
LONGEST = 1 << 20
"""Bytes of an environment."""
COMMAND = """#!{python} -IS
import json, os, signal, socket, sys

channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, {longest})
channel.connect({place!r})
asked = {{"words": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}}
socket.send_fds(channel, [json.dumps(asked).encode()], [0, 1, 2])
pid = int(channel.recv(16))
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(pid, number))
os._exit(int(channel.recv(16)) % 256)
"""
"""A program that has one forked in its place, with its words, its surroundings and its streams."""


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
    reading, writing = (None, stderr) if stderr is not None else os.pipe()
    request = json.dumps({"environment": environment, "folder": os.getcwd()}).encode()
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST)
    channel.connect(str(_loaded() / "place"))
    socket.send_fds(channel, [request], [0, 1, writing])
    pid = int(channel.recv(16))
    if reading is None:
        return ForkedProcess(pid, channel, None)
    os.close(writing)
    return ForkedProcess(pid, channel, os.fdopen(reading, encoding="utf-8"))


def forked_programs() -> Path:
    """The folder of a `trainfit` for which nothing has to be loaded: for a PATH, where it is not
    the start of the program that is tested.
    """
    return _loaded() / "bin"


@cache
def _loaded() -> Path:
    """The folder of a process that has loaded all, and ends with this one: the socket that it
    listens at, and the program that has it forked.
    """
    folder = Path(mkdtemp(prefix="trainfit-"))
    place, program = folder / "place", folder / "bin" / "trainfit"
    program.parent.mkdir()
    text = COMMAND.format(python=sys.executable, longest=LONGEST, place=str(place))
    program.write_text(text, "utf-8")
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(place))
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-c", f"from tests.forking import fork; fork({listener.fileno()})"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )

    def end() -> None:
        process.communicate()
        shutil.rmtree(folder)

    atexit.register(end)
    return folder


def fork(descriptor: int) -> None:
    """Fork a process for each request that comes, until whoever began this one has ended."""
    warm()
    listener = socket.socket(fileno=descriptor)
    ended, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno())
    asked: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as waiting:
        for each in (0, listener, ended):
            waiting.register(each, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in waiting.select()]
            if 0 in ready:
                return
            if ended in ready:
                ended.recv(4096)
                _tell(asked)
            if listener in ready:
                channel, _ = listener.accept()
                request, streams, _, _ = socket.recv_fds(channel, LONGEST, 3)
                pid = os.fork()
                if pid == 0:
                    _become(json.loads(request), streams)
                for stream in streams:
                    os.close(stream)
                asked[pid] = channel
                channel.send(str(pid).encode())


def _tell(asked: dict[int, socket.socket]) -> None:
    """Tell whoever asked for them of the processes that have ended."""
    while asked:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with asked.pop(pid) as channel:
            try:
                channel.send(str(os.waitstatus_to_exitcode(status)).encode())
            except OSError:  # nobody waits for it any more
                continue


def _become(asked: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be the service, as `trainfit serve` is, or a command."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 256)
    sys.stdout, sys.stderr = (_written(number) for number in (1, 2))
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    time.tzset()
    code = 1
    try:
        if "words" in asked:
            sys.argv[1:] = asked["words"]
            main()
        else:
            serve(ServiceSettings())
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _written(number: int) -> io.TextIOWrapper:
    """A stream as Python makes it when it starts."""
    file = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    return io.TextIOWrapper(file, encoding="utf-8", line_buffering=number == 2 or os.isatty(number))

"""Tutorials, and the skill for agents: files that a reader is told to write are written, and
commands to type are typed.

A listing with a title is a file, and one of `console` is commands with what they print: all of a
page in one folder, at a terminal of 80 columns.
"""

from __future__ import annotations

import os
import pty
import re
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

import trainfit
from tools.docs.terminal import ROOT, surroundings

TUTORIALS = (
    *(ROOT / "docs" / name for name in ("first-estimate.md", "ci-gate.md", "cluster.md")),
    ROOT / "deploy/agents/trainfit/SKILL.md",
)

LISTING = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
SERVICE = "http://127.0.0.1:8080"
"""Where the service of a page listens, which is elsewhere while the page is followed."""
ROWS, COLUMNS = 24, 80
STYLE = re.compile(r"\x1b\[[0-9;]*m")
"""Bold, which a terminal shows without colours too."""
START_SECONDS = 60


def followed(text: str, programs: Path = Path(sys.executable).parent) -> str:
    """A tutorial with what its commands print now, by the `trainfit` of this folder."""
    environment = _environment(programs)
    with (
        TemporaryDirectory() as folder,
        _service(environment) if SERVICE in text else nullcontext(SERVICE) as service,
    ):

        def follow(listing: re.Match[str]) -> str:
            language, title, body = listing.groups()
            if title is not None:
                path = Path(folder, title)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(body, "utf-8")
            if language != "console":
                return listing[0]
            typed = []
            for command in COMMAND.findall(body):
                lines = _printed(command.replace(SERVICE, service), folder, environment)
                typed += [f"$ {command}", *lines]
            shown = "".join(f"{line}\n" for line in typed).replace(service, SERVICE)
            return f"```console\n{shown}```"

        return LISTING.sub(follow, text)


def _printed(command: str, folder: str, environment: dict[str, str]) -> list[str]:
    """The lines that a command of bash prints at a terminal."""
    terminal, screen = pty.openpty()
    termios.tcsetwinsize(screen, (ROWS, COLUMNS))
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=screen,
        stderr=screen,
    )
    os.close(screen)
    printed = STYLE.sub("", b"".join(_read(terminal)).decode())
    process.wait()
    lines = "\n".join(line.rstrip() for line in printed.splitlines())
    return lines.strip("\n").splitlines()


def _read(terminal: int) -> Iterator[bytes]:
    """All that is printed; Linux ends a terminal that nobody holds with an error."""
    with open(terminal, "rb", buffering=0) as stream:
        while True:
            try:
                yield stream.read(65_536)
            except OSError:
                return


@contextmanager
def _service(environment: dict[str, str]) -> Iterator[str]:
    """A service that runs meanwhile, and where it listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    process = subprocess.Popen(
        ["trainfit", "serve"],
        env={**environment, "TRAINFIT_PORT": str(port)},
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        url = f"http://127.0.0.1:{port}"
        while not _ready(url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(url)
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait()


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.ConnectError:
        return False


def _environment(programs: Path) -> dict[str, str]:
    """A `trainfit`, with the package that is imported here."""
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    package = str(Path(trainfit.__file__).parents[1])
    return {**surroundings(), "PATH": path, "PYTHONPATH": package, "TERM": "xterm"}

"""Functions that workers of tests run."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def process() -> int:
    return os.getpid()


def loaded() -> set[str]:
    """The modules and packages that this process has loaded."""
    return {*sys.modules}


def double(number: int) -> int:
    return 2 * number


def compute(_: object = None) -> None:
    while True:
        pass


def fill() -> int:
    held = []
    while True:
        held.append(bytearray(2**20))


def fail() -> None:
    raise LookupError("there is no such thing")


def announce(path: str) -> None:
    """Write which process this is, and go on for a minute."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)

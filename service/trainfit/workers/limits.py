"""What a process may take for one piece of work. This runs in the worker."""

from __future__ import annotations

import ctypes
import resource
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Address space beyond what the process had when it was made, and processor time for one piece
    of work. A process that exceeds the time is killed by the kernel.
    """

    memory_bytes: int
    cpu_seconds: int


M_MMAP_THRESHOLD = -3
"""Of glibc's malloc.h."""
GIVEN_BACK_BYTES = 128 * 1024
"""Blocks of this size and more go back to the system when they are freed. glibc begins with this
too, but raises it to what was freed, and a worker kept 10 MiB more.
"""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """In the place of a result: the address space did not suffice."""


@dataclass(frozen=True, slots=True)
class Fault:
    """In the place of a result: the traceback of what the function raised."""

    traceback: str


def run_limited(limits: WorkerLimits, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What the function returns, or OutOfMemory or Fault."""
    _apply(limits)
    try:
        return function(*args)
    except MemoryError:
        return OutOfMemory()
    except Exception:
        return Fault(traceback.format_exc())


_address_space = 0
"""The limit of this process, set by its first piece of work."""


def _apply(limits: WorkerLimits) -> None:
    global _address_space
    if not _address_space:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is for the service
        _address_space = _bytes_in_use() + limits.memory_bytes
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (_address_space, _address_space))
        with suppress(AttributeError):  # Other libraries of C have no such thing.
            ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, GIVEN_BACK_BYTES)
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + limits.cpu_seconds
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def _bytes_in_use() -> int:
    """The address space of this process; Linux alone tells. Elsewhere it is taken for a GiB."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return 2**30
    return int(statm.read_text().split()[0]) * resource.getpagesize()

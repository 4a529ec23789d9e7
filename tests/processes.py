"""What processes take, as Linux tells it."""

from __future__ import annotations

import os
import resource
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still live."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = _fields(stat)[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(stat.parent.name))
    return found


def cpu_seconds(pid: int) -> float:
    """The processor time of a process so far. Nothing, where it has ended."""
    try:
        fields = _fields(Path(f"/proc/{pid}/stat"))
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(fields[11]) + int(fields[12])) / TICKS


def threads(pid: int) -> int:
    """How many threads a process has."""
    return int(_fields(Path(f"/proc/{pid}/stat"))[17])


def resident_bytes(pid: int) -> int:
    """The memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def proportional_bytes(pid: int) -> int:
    """The memory that a process holds, with its part of the pages that it shares: what several hold
    together is their sum. Nothing, where it has ended.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 1024 * next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _fields(stat: Path) -> list[str]:
    """What follows the name of the program, which may have spaces."""
    return stat.read_text().rpartition(")")[2].split()

"""A recording that torch.cuda.memory._dump_snapshot has written: a pickle, of which nothing but
data is read.

A pickle makes things by calling what it names. Here nothing can be named: every name is refused
where it would be looked up, so that lists, dictionaries, numbers and texts are all that can come
of it. How much of these there are, only limits of memory and time bound (trainfit.workers).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from trainfit.errors import TrainfitError

MAX_TEXT_LENGTH = 4096
MAX_NUMBER = 2**63 - 1
PARTS = frozenset({"segments", "device_traces"})
"""Of a recording: what there is in the end, and what was asked for."""


class SnapshotError(TrainfitError, ValueError):
    """A file is no recording of the allocator."""


class _DataAlone(pickle.Unpickler):
    """Reads lists, dictionaries, numbers and texts."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise SnapshotError(f"it names {module[:80]}.{name[:80]}, which a recording has no use for")

    def persistent_load(self, pid: object) -> NoReturn:  # noqa: ARG002
        raise SnapshotError("it refers to something outside itself")


def read_recording(file: BinaryIO) -> dict[str, Any]:
    """What the file holds. Raises SnapshotError, and MemoryError where that is too much."""
    try:
        recording = _DataAlone(file).load()
    except (SnapshotError, MemoryError):
        raise
    except Exception as error:  # whatever a pickle that is none comes to
        raise SnapshotError(f"it is no pickle of data: {error}") from None
    if not isinstance(recording, dict):
        raise SnapshotError("it is no recording: it holds no dictionary")
    if not recording.keys() & PARTS:
        raise SnapshotError("it is no recording: it has neither segments nor device_traces")
    return recording


def items(part: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The dictionaries of a list; none where there is no list. Raises SnapshotError."""
    found = part.get(name) or []
    if not isinstance(found, list | tuple):
        raise SnapshotError(f"{name} is no list")
    for each in found:
        if not isinstance(each, dict):
            raise SnapshotError(f"{name} has something other than dictionaries")
        yield each


def number(part: dict[str, Any], name: str) -> int:
    """A number that is not negative. Raises SnapshotError."""
    found = part.get(name)
    if type(found) is not int or not 0 <= found <= MAX_NUMBER:
        raise SnapshotError(f"{name} is no number of bytes or no address")
    return found


def text(part: dict[str, Any], name: str) -> str:
    """A text, cut off where it is long; empty where there is none."""
    found = part.get(name)
    return found[:MAX_TEXT_LENGTH] if isinstance(found, str) else ""

"""What this process remembers: bounded, and quick enough for every request."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from trainfit.hub.entries import ConfigKey, HubConfig, Ref

MAX_ENTRIES = 4096
MAX_BYTES = 32 * 2**20
"""Of memory, which Python takes for configs: many times as much as their files are long."""

Value = TypeVar("Value")


@dataclass(slots=True)
class Remembered:
    """A ref with its config. From `stale_at` on it is not confirmed, and from `due_at` on the Hub
    is to be asked again; both in seconds since the epoch.
    """

    ref: Ref
    config: HubConfig
    stale_at: float
    due_at: float


class Memory:
    """The models that were asked for last."""

    def __init__(self) -> None:
        self._entries: OrderedDict[ConfigKey, Remembered] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: ConfigKey) -> Remembered | None:
        """The entry, which becomes the youngest."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: ConfigKey, entry: Remembered) -> None:
        """Remember an entry, and forget the eldest beyond the bounds."""
        old = self._entries.pop(key, None)
        self._entries[key] = entry
        self._bytes += entry.config.size - (old.config.size if old is not None else 0)
        while len(self._entries) > MAX_ENTRIES or self._bytes > MAX_BYTES:
            _, eldest = self._entries.popitem(last=False)
            self._bytes -= eldest.config.size


class Brief(Generic[Value]):
    """Values that hold until some time, in seconds of any clock. Those over time are kept as long
    as there is room.
    """

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, tuple[Value, float]] = OrderedDict()

    def put(self, key: Hashable, value: Value, until: float) -> None:
        self._values[key] = value, until
        self._values.move_to_end(key)
        if len(self._values) > MAX_ENTRIES:
            self._values.popitem(last=False)

    def find(self, key: Hashable) -> tuple[Value, float] | None:
        """The value and until when it holds, which may be over."""
        return self._values.get(key)

    def drop(self, key: Hashable) -> None:
        self._values.pop(key, None)

"""What PyTorch and the driver say of a card at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from trainfit.specs.artifacts import Counter

COUNTERS: tuple[Counter, ...] = (
    "allocated_bytes.all.current",
    "allocated_bytes.all.peak",
    "active_bytes.all.peak",
    "reserved_bytes.all.current",
    "reserved_bytes.all.peak",
)


class Cuda(Protocol):
    """The part of `torch.cuda` that is read."""

    def memory_stats(self) -> Mapping[str, int]: ...

    def mem_get_info(self) -> tuple[int, int]:
        """Bytes that are free, and all that there are."""
        ...


class WatchedFigure(NamedTuple):
    """Bytes that a counter had: what is sent of them as a measurement of POST /v1/reconcile."""

    counter: Counter
    bytes: int
    rank: int
    step: int
    moment: str


@dataclass(frozen=True, slots=True)
class CounterReading:
    """Counters by PyTorch's names, and the bytes of the card that are in use, by whomever."""

    step: int
    moment: str
    counters: Mapping[str, int]
    device_used: int
    capacity: int

    def __getitem__(self, counter: Counter) -> int:
        return self.counters.get(counter, 0)

    @property
    def retries(self) -> int:
        """How often the cache was released to find room."""
        return self.counters.get("num_alloc_retries", 0)

    def figures(self, rank: int) -> Iterator[WatchedFigure]:
        """The reading as figures of a run."""
        sizes: dict[Counter, int] = {name: self[name] for name in COUNTERS}
        sizes |= {"device_used": self.device_used, "device_capacity": self.capacity}
        for counter, size in sizes.items():
            yield WatchedFigure(counter, size, rank, self.step, self.moment)


def read(cuda: Cuda, step: int, moment: str) -> CounterReading:
    """What is so now."""
    stats = cuda.memory_stats()
    free, total = cuda.mem_get_info()
    counters = {name: stats[name] for name in (*COUNTERS, "num_alloc_retries") if name in stats}
    return CounterReading(step, moment, counters, total - free, total)

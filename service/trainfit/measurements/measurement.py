"""What a run says of itself: bytes by the counter that was read, times and counts, with the line
where it says so.
"""

from dataclasses import dataclass
from typing import Literal

from trainfit.specs.artifacts import LogFormat

Counter = Literal[
    "allocated_bytes.all.current",
    "allocated_bytes.all.peak",
    "active_bytes.all.current",
    "active_bytes.all.peak",
    "requested_bytes.all.current",
    "requested_bytes.all.peak",
    "inactive_split_bytes.all.current",
    "inactive_split_bytes.all.peak",
    "reserved_bytes.all.current",
    "reserved_bytes.all.peak",
    "reserved_unallocated",
    "tried_to_allocate",
    "process_used",
    "device_used",
    "device_free",
    "device_capacity",
]
"""torch.cuda.memory_stats' names, and what is no counter of PyTorch's: what an error of a memory
that is full tells, and what the driver tells of a process and of the card."""

PeakWindow = Literal["run", "log", "phase"]
"""Since when a peak is the highest: the beginning of the run or of a phase, or the line before."""

Event = Literal["num_alloc_retries", "num_ooms"]


@dataclass(frozen=True, slots=True)
class Place:
    """A line of one of the texts, counted from 1."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """Bytes that a counter had. `resolution_bytes` is the step in which it was printed, and
    `peak_window` is null where the counter is no peak. `rank` is null where no line says whose it
    is, `moment` says in the program's words when it was read.
    """

    counter: Counter
    bytes: int
    resolution_bytes: int
    peak_window: PeakWindow | None
    rank: int | None
    step: int | None
    moment: str
    format: LogFormat
    source: Place


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a step was: what was printed of its seconds, and per GPU of tokens and of 10^12
    floating-point operations each second.
    """

    step: int | None
    rank: int | None
    seconds: float | None
    tokens_per_second_per_gpu: float | None
    tflops_per_gpu: float | None
    format: LogFormat
    source: Place


@dataclass(frozen=True, slots=True)
class Occurrences:
    """How often something has happened by then."""

    event: Event
    count: int
    rank: int | None
    step: int | None
    format: LogFormat
    source: Place


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that speaks of memory and was not read, and why."""

    source: Place
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Measurements:
    """All that was read, in the order of the texts and their lines."""

    measurements: list[Measurement]
    speeds: list[Speed]
    occurrences: list[Occurrences]
    unread: list[Unread]

"""What a run says of itself: bytes by the counter that was read, times and counts, with the line
where it says so.
"""

from dataclasses import dataclass

from trainfit.specs.artifacts import Counter, Event, LogFormat, PeakWindow, Place


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

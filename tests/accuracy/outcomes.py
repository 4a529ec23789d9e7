"""What becomes of one row of ground truth: priced with figures, or skipped with a reason."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from trainfit.decisions.verdict import Verdict
from trainfit.estimator.results import Interval
from trainfit.steptime import Seconds

GIB = 2**30


class UnusableRowError(ValueError):
    """A row that is not to be priced: it is no truth, or says what a job has no field for."""


class NotStatedError(UnusableRowError):
    """A row that leaves open, or contradicts, what was run: nobody could price it."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that a real run took beside those that the service expected."""

    measured_bytes: int
    low_bytes: int
    expected_bytes: int
    high_bytes: int
    error_ratio: float

    @property
    def inside(self) -> bool:
        return self.low_bytes <= self.measured_bytes <= self.high_bytes


@dataclass(frozen=True, slots=True)
class Counts:
    """Whether every count agrees; `differences` has those that do not, expected and counted.

    `not_compared` has figures of the row that are known to be wrong, with why.
    """

    exact: bool
    differences: dict[str, dict[str, Any]]
    not_compared: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a configuration ran, and what the service says the card's memory would take."""

    fits: bool
    verdict: Verdict
    capacity_bytes: int
    low_bytes: int
    expected_bytes: int
    high_bytes: int

    @property
    def contradicts(self) -> bool:
        return self.verdict == ("does_not_fit" if self.fits else "fits")


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of a real run's step beside those that the service expected."""

    measured_seconds: float
    low_seconds: float
    expected_seconds: float
    high_seconds: float
    error_ratio: float

    @property
    def inside(self) -> bool:
        return self.low_seconds <= self.measured_seconds <= self.high_seconds


Figures = Memory | Counts | Fit | Speed


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row of ground truth, or one pipeline stage of it."""

    id: str
    group: str
    figures: Figures | None = None
    reason: str | None = None
    failed: bool = False
    """True where the runner or the service broke on the row, which is neither a figure nor a
    refusal."""
    stated: bool = True
    """Whether the row says what was run."""

    @property
    def priced(self) -> bool:
        return self.figures is not None

    def as_json(self) -> dict[str, Any]:
        status = "priced" if self.priced else "skipped"
        shown = {"id": self.id, "group": self.group, "status": status, "reason": self.reason}
        return shown | (asdict(self.figures) if self.figures is not None else {})


def memory(measured_gib: float, estimated: Interval) -> Memory:
    """A published figure in GiB beside an estimate. The error is relative to the measurement."""
    measured = round(measured_gib * GIB)
    return Memory(
        measured_bytes=measured,
        low_bytes=estimated.low,
        expected_bytes=estimated.expected,
        high_bytes=estimated.high,
        error_ratio=estimated.expected / measured - 1,
    )


def speed(measured: float, estimated: Seconds) -> Speed:
    """Published seconds beside an estimate. The error is relative to the measurement."""
    return Speed(
        measured_seconds=measured,
        low_seconds=estimated.low,
        expected_seconds=estimated.expected,
        high_seconds=estimated.high,
        error_ratio=estimated.expected / measured - 1,
    )


def counts(
    expected: dict[str, Any], counted: dict[str, Any], not_compared: dict[str, str] | None = None
) -> Counts:
    """Compare two sets of figures by name; a name that one side lacks counts as zero there."""
    names = dict.fromkeys((*expected, *counted))
    differences = {
        name: {"expected": expected.get(name, 0), "counted": counted.get(name, 0)}
        for name in names
        if expected.get(name, 0) != counted.get(name, 0)
    }
    return Counts(not differences, differences, not_compared or {})

"""A kind of line that a program prints: the words that it is known by, and the figures behind them.

Three things decide what a figure means, and stand with each: its unit, since when a peak is the
highest, and whose rank it is.
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from trainfit.specs.artifacts import Counter, Event, LogFormat, PeakWindow

KIB, MIB, GIB = 1024, 1024**2, 1024**3
GB = 10**9
UNITS: Mapping[str, int] = {
    "bytes": 1, "B": 1, "KiB": KIB, "KB": KIB, "MiB": MIB, "MB": MIB, "GiB": GIB, "GB": GIB,
    "TiB": 1024 * GIB,
}  # fmt: skip
"""As PyTorch prints them: powers of 1024, whatever they are called."""
DECIMAL: Mapping[str, int] = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
"""As nanotron shortens any number."""

BLOCK = 512
"""Bytes that PyTorch rounds every request to."""
LEAST_SEGMENT = 2 * MIB
"""Bytes that it asks a card for at least."""
MOST_BYTES = 2**50
"""No card has as much: where the driver does not answer, PyTorch prints 2^64 less one."""

LONGEST_LINE = 20_000
"""Characters of a line that is read."""
NUMBER = r"(\d[\d,]{0,20}(?:\.\d{1,24})?(?:e[+-]?\d{1,2})?)(?!\.?\d|e[+-]?\d)"
"""One that a program may have printed, whole: of a longer one no part is taken."""
MOST_DIGITS = 9
"""Of a step, of a rank, of how often something has happened."""
COUNT = rf"(\d{{1,{MOST_DIGITS}}})(?!\d)"
END_OF_A_STEP = "end of a step"


def _said(units: Mapping[str, int]) -> str:
    """The text behind a number that names one of these units."""
    names = "|".join(sorted(units, key=len, reverse=True))
    return rf"\s*({names})(?![A-Za-z])"


class Bytes(NamedTuple):
    """A figure behind `words`. Of several in `unit` the text behind the number names one, or the
    number itself tells it; `digits` are those that count where a program rounds to so many. `above`
    are counters: the figure is what there was beyond the first of them that stands before it.
    `holds` are some, too: of several figures behind such words it is the only one that is no less
    than all of these. What PyTorch's allocator counts `in_blocks` was printed in another unit where
    it is below its least segment and of no whole ones.
    """

    words: str
    counter: Counter
    unit: int | Mapping[str, int] | Callable[[str], int]
    window: PeakWindow | None = None
    digits: int | None = None
    above: tuple[Counter, ...] = ()
    holds: tuple[Counter, ...] = ()
    in_blocks: bool = False

    @property
    def pattern(self) -> str:
        return self.words + NUMBER + (_said(self.unit) if isinstance(self.unit, Mapping) else "")

    def unit_of(self, match: re.Match[str]) -> int:
        match self.unit:
            case int():
                return self.unit
            case Mapping():
                return self.unit[match[2]]
            case unit:
                return unit(match[1])

    def is_of_bytes(self, match: re.Match[str]) -> bool:
        """Whether the number can be one of bytes, if that is what the program says."""
        number = number_of(match[1])
        return not self.in_blocks or number >= LEAST_SEGMENT or number % BLOCK == 0


class SpeedPattern(NamedTuple):
    """A figure of speed behind `words`, in so many of its unit. Of `units` the text behind the
    number names one.
    """

    words: str
    what: Literal["seconds", "tokens_per_second_per_gpu", "tflops_per_gpu"]
    unit: float = 1.0
    units: Mapping[str, int] | None = None

    @property
    def pattern(self) -> str:
        return self.words + NUMBER + ("" if self.units is None else _said(self.units))


class Times(NamedTuple):
    """How often something has happened, behind `words`."""

    words: str
    event: Event

    @property
    def pattern(self) -> str:
        return self.words + COUNT


class Once(NamedTuple):
    """Something that its marker says has happened."""

    event: Event

    @property
    def pattern(self) -> str:
        return ""


Figure = Bytes | SpeedPattern | Times | Once


class NamedCounter(NamedTuple):
    """What a program calls a counter."""

    name: str
    counter: Counter
    window: PeakWindow | None = "run"


def current_and_peak(now: str, most: str) -> tuple[NamedCounter, ...]:
    """What a program calls memory_stats' counters that has one of these words before the name of
    what there is, and the other before that of the most there was in the run.
    """
    return (
        NamedCounter(f"{now}allocated", "allocated_bytes.all.current", None),
        NamedCounter(f"{now}active", "active_bytes.all.current", None),
        NamedCounter(f"{now}inactive", "inactive_split_bytes.all.current", None),
        NamedCounter(f"{now}reserved", "reserved_bytes.all.current", None),
        NamedCounter(f"{most}allocated", "allocated_bytes.all.peak"),
        NamedCounter(f"{most}active", "active_bytes.all.peak"),
        NamedCounter(f"{most}inactive", "inactive_split_bytes.all.peak"),
        NamedCounter(f"{most}reserved", "reserved_bytes.all.peak"),
    )


class LineFormat(NamedTuple):
    """Lines of one program, each of which has this `word`. `marker` begins a record and may name
    its `step`, `rank` and `moment`; figures are looked for from there to the next record's begin.
    `moment_is` tells where the words stand that name a moment, where the marker has none; the line
    before has to have what is `behind`.
    """

    name: LogFormat
    word: str
    marker: str
    figures: tuple[Figure, ...]
    moment: str = END_OF_A_STEP
    moment_is: Literal["in front", "a line before"] | None = None
    behind: str | None = None


def known_by_its_words(
    name: LogFormat, word: str, figure: Bytes | Times, moment: str = END_OF_A_STEP
) -> LineFormat:
    """A figure that a program prints by itself, or in any order beside others: each of its own
    record, which begins with the figure's words.
    """
    return LineFormat(name, word, rf"\b{figure.words}(?=\d)", (figure,), moment)


class CompiledFormat(NamedTuple):
    """A format with its patterns."""

    format: LineFormat
    marker: re.Pattern[str]
    figures: tuple[tuple[Figure, re.Pattern[str]], ...]
    behind: re.Pattern[str] | None


def compiled(format: LineFormat) -> CompiledFormat:
    figures = tuple([(each, re.compile(each.pattern, re.ASCII)) for each in format.figures])
    behind = None if format.behind is None else re.compile(format.behind, re.ASCII)
    return CompiledFormat(format, re.compile(format.marker, re.ASCII), figures, behind)


def count_of(digits: str | None) -> int | None:
    """A step or a rank; None where there is none, or what no run has."""
    return None if digits is None or len(digits) > MOST_DIGITS else int(digits)


def number_of(text: str) -> float:
    return float(text.replace(",", ""))


def resolution(text: str, unit: int, digits: int | None) -> int:
    """The step of the last digit that was printed, or that counts."""
    mantissa, _, exponent = text.replace(",", "").partition("e")
    whole, _, decimals = mantissa.partition(".")
    places = len(decimals)
    if digits is not None and float(mantissa):
        places = (
            digits - len(whole.lstrip("0")) if float(mantissa) >= 1 else digits + _zeros(decimals)
        )
    return max(1, round(unit * 10.0 ** (int(exponent or 0) - places)))


def _zeros(decimals: str) -> int:
    return len(decimals) - len(decimals.lstrip("0"))

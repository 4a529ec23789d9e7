"""Numbers as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainfit.estimator.results import Interval

GIB = 2**30
MIB = 2**20


def gib(size: int) -> str:
    """Bytes as GiB with one decimal."""
    return f"{size / GIB:.1f}"


def gib_range(bounds: Interval) -> str:
    """Bounds as GiB."""
    return f"{gib(bounds.low)}–{gib(bounds.high)}"


def count(number: int) -> str:
    """A number of parameters, in billions or millions where it has as many."""
    if number >= 1_000_000_000:
        return f"{number / 1e9:.2f} B"
    if number >= 1_000_000:
        return f"{number / 1e6:.2f} M"
    return f"{number:,}"


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers with runs drawn together: 0–2, 30, 32–33."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("–".join(str(end) for end in run) for run in runs)


def plain(name: str) -> str:
    """A name of the contract as words."""
    return name.replace("_", " ")

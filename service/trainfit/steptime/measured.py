"""Products that were measured take the place of what a formula says of them."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log, log2
from typing import NamedTuple


class MeasuredRatio(NamedTuple):
    """A product of [m, k] and [k, n]: how many times as long it took as the formula says."""

    m: int
    n: int
    k: int
    ratio: float


class Measured:
    """How many times as long products of one precision take as a formula says."""

    def __init__(self, products: Iterable[MeasuredRatio]) -> None:
        self._points = [(log2(m), log2(n), log2(k), log(ratio)) for m, n, k, ratio in products]

    def ratio(self, m: float, n: float, k: float) -> float:
        """That of a product of [m, k] and [k, n]. One of sizes that were measured has its own; any
        other has the mean of all, each by the inverse of its distance's square, in doublings of the
        three sizes.
        """
        if not self._points:
            return 1.0
        at = log2(m), log2(n), log2(k)
        weights = whole = 0.0
        for *place, own in self._points:
            distance = sum([(one - other) ** 2 for one, other in zip(place, at, strict=True)])
            if not distance:
                return exp(own)
            weights += 1 / distance
            whole += own / distance
        return exp(whole / weights)

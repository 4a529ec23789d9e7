"""A change to a job with what it costs: a proposal, and no more.

Whether the job is still consistent, and what is saved, only an estimate of the changed job tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

RECOMPUTE = "/training/recompute"
OFFLOAD = "/training/offload_modules"


class Price(IntEnum):
    """What a change costs, cheapest first."""

    NOTHING = 0
    SPEED = 1
    COMMUNICATION = 2
    PRECISION = 3
    RECOMPUTATION = 4
    TRANSFERS = 5
    GPUS = 6
    TASK = 7


@dataclass(frozen=True, slots=True)
class Candidate:
    """Values of fields, by their path in the job."""

    values: dict[str, Any]
    price: Price
    cost: str


def together(a: Candidate, b: Candidate) -> Candidate | None:
    """Both changes at once: None where they are at odds. Modules to recompute or offload add up."""
    values = {**a.values, **b.values}
    for path in a.values.keys() & b.values.keys():
        first, second = a.values[path], b.values[path]
        if path == OFFLOAD:
            values[path] = list(dict.fromkeys([*first, *second]))
        elif path == RECOMPUTE and "modules" in first and "modules" in second:
            modules = dict.fromkeys([*first["modules"], *second["modules"]])
            values[path] = {**first, "modules": list(modules)}
        elif first != second:
            return None
    return Candidate(values, max(a.price, b.price), f"{a.cost}; {b.cost}")

"""The bytes of a step by what they are for, at its peak and elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from tests.oracle.tracker import Allocation, Tracker

STATES = ("param", "grad", "opt")
COLUMN_OF_ROLE = {
    "buffer": "other",
    "input": "other",
    "recompute": "activation",
    "fsdp_unsharded_grad": "unsharded_grad",
}
COLUMN_OF_PHASE = {"forward": "activation", "backward": "bwd_temp", "optimizer": "opt_temp"}
ALLOCATOR_UNIT = 512
PHASES = ("forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True)
class Measured:
    """What the second step needed."""

    figures: dict[str, Any]
    """The `measured` object of a row."""
    breakdown: dict[str, Any]
    """What was alive at the peak, at the end of forward and at each phase's peak."""
    requests: list[int]
    """What came, in bytes, and what went, as less than nothing: the number of what came."""
    first_step: int
    """How many of them are the model's, and the first step's."""


def account(
    tracker: Tracker,
    *,
    forward_end: int,
    step_start: int,
    first_step: int,
    parameters: tuple[int, int],
    seconds: float,
) -> Measured:
    """Sum up what a tracker saw. `parameters` are those of the model and those of this rank."""
    peak = tracker.peak
    at_peak = by_column(tracker.alive(peak.tick))
    rounded = sum(
        -(-each.bytes // ALLOCATOR_UNIT) * ALLOCATOR_UNIT for each in tracker.alive(peak.tick)
    )
    shown = (*STATES, "activation")
    figures = {
        **{f"{name}_bytes": at_peak.get(name, 0) for name in shown},
        "other_bytes": {name: size for name, size in at_peak.items() if name not in shown},
        "total_peak": peak.bytes,
        "total_peak_512": rounded,
        "peak_phase": peak.phase,
        "peak_module": peak.module,
        "peak_op": peak.operation,
        "phase_peak": {name: tracker.phase_peaks[name].bytes for name in PHASES},
        "at_forward_end": by_column(tracker.alive(forward_end)),
        "step_start": step_start,
        "params_total": parameters[0],
        "params_local": parameters[1],
        "wall_s": round(seconds, 2),
        "torch": torch.__version__,
    }
    breakdown = {
        "detail_peak": detail(tracker.alive(peak.tick)),
        "detail_fwd_end": detail(tracker.alive(forward_end)),
        "detail_phase": {
            name: detail(tracker.alive(tracker.phase_peaks[name].tick)) for name in PHASES
        },
    }
    return Measured(figures, breakdown, tracker.requests(), first_step)


def column(allocation: Allocation) -> str:
    """What an allocation counts as."""
    role = allocation.role
    if role is None:
        return COLUMN_OF_PHASE.get(allocation.phase, "other")
    return COLUMN_OF_ROLE.get(role, role)


def by_column(allocations: Iterable[Allocation]) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for each in allocations:
        sizes[column(each)] += each.bytes
    return dict(sizes)


def detail(allocations: Iterable[Allocation]) -> dict[str, list[int]]:
    """[bytes, tensors] of all but states, by column, module, operation, dtype and shape."""
    rows: dict[str, list[int]] = {}
    for each in allocations:
        if each.role in (*STATES, "buffer", "input"):
            continue
        module = each.module.replace("._checkpoint_wrapped_module", "")
        module = re.sub(r"(layers|h|blocks)\.\d+", r"\1.*", module)
        key = f"{column(each)}|{module}|{each.operation}|{each.dtype}|{list(each.shape)}"
        row = rows.setdefault(key, [0, 0])
        row[0] += each.bytes
        row[1] += 1
    return dict(sorted(rows.items(), key=lambda item: -item[1][0]))

"""What training steps take of a GPU: by PyTorch's statistics, and by the driver's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

GIB = 2**30


def on_the_device() -> int:
    """Bytes of the GPU that are in use, by whomever: this process is meant to be alone. Where there
    is no GPU, as in a rehearsal, this and all other figures are 0.
    """
    if not torch.cuda.is_available():
        return 0
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


def wait() -> None:
    """Until the GPU has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Steps:
    """The statistics of a run, taken before its first step and after each; none is reset, as what
    a run reports at its end is what is measured.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.allocated: list[int] = []
        self.reserved: list[int] = []
        self.begun = 0.0
        self.before: dict[str, int] = {}

    def begin(self) -> None:
        wait()
        if not self.before:
            self.before = {
                "loaded_allocated_bytes": torch.cuda.memory_allocated(),
                "loaded_reserved_bytes": torch.cuda.memory_reserved(),
                "loaded_outside_bytes": on_the_device() - torch.cuda.memory_reserved(),
            }
        self.begun = time.perf_counter()

    def end(self) -> None:
        wait()
        self.seconds.append(time.perf_counter() - self.begun)
        self.allocated.append(torch.cuda.max_memory_allocated())
        self.reserved.append(torch.cuda.max_memory_reserved())

    def measured(self) -> dict[str, Any]:
        """The figures in GiB as a report has them, the same in bytes, and each step's."""
        device, reserved = on_the_device(), torch.cuda.memory_reserved()
        return {
            "max_allocated_gib": round(self.allocated[-1] / GIB, 4),
            "max_reserved_gib": round(self.reserved[-1] / GIB, 4),
            "device_gib": round(device / GIB, 4),
            "outside_bytes": device - reserved,
            **self.before,
            "step_allocated_bytes": self.allocated,
            "step_reserved_bytes": self.reserved,
            "between_steps_bytes": torch.cuda.memory_allocated(),
            "alloc_retries": torch.cuda.memory_stats().get("num_alloc_retries", 0),
            "step_seconds": round(statistics.median(self.seconds[2:]), 5),
        }


def measured(step: Callable[[], object], steps: int = 6) -> dict[str, Any]:
    """Run `step` so often, and say what that took."""
    taken = Steps()
    for _ in range(steps):
        taken.begin()
        step()
        taken.end()
    return taken.measured()

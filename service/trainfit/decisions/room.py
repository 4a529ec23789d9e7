"""The room on a card: what the driver reports, less what others hold and what is to stay free."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from trainfit.decisions.verdict import Verdict, verdict
from trainfit.estimator.results import Estimate, Interval, Needs
from trainfit.resolve.gpu import gpu_of
from trainfit.specs.gpu import CustomGpu, JobGpu
from trainfit.specs.policy import Headroom


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes of one card. `usable_bytes` is what a job may take, the headroom included."""

    capacity_bytes: int
    reserved_other_bytes: int
    usable_bytes: int
    headroom_bytes: int

    def verdict(self, estimate: Estimate | Needs) -> Verdict:
        return verdict(estimate, self.usable_bytes, self.headroom_bytes)

    def margin(self, needed: Interval) -> Interval:
        """Usable bytes that stay free; below zero, those that are missing."""
        usable = self.usable_bytes
        return Interval(usable - needed.high, usable - needed.expected, usable - needed.low)


def room_on(gpu: JobGpu, policy: Headroom) -> Room:
    """The room that a policy leaves on a card. Raises UnknownGpuError."""
    reserved = policy.reserved_other_bytes
    if isinstance(gpu, CustomGpu):
        reserved += gpu.reserved_other_bytes
    capacity = gpu_of(gpu).memory_bytes
    usable = max(0, capacity - reserved)
    headroom = max(policy.headroom_bytes, ceil(usable * policy.headroom_ratio))
    return Room(capacity, reserved, usable, headroom)

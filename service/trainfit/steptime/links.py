"""Groups of ranks on the links between GPUs, and the seconds of their collectives.

Ranks are numbered with tensor-parallel ones next to each other, then context, data and pipeline
parallel ones; among experts, expert-tensor, expert and expert-data parallel ones. Source:
megatron/core/parallel_state.py (order "tp-cp-ep-dp-pp"); torchtitan's parallel_dims.py.
"""

from math import log2
from typing import NamedTuple

from trainfit.catalog.speed import ClusterEfficiency, GpuSpeed
from trainfit.estimator.demands import Collective
from trainfit.estimator.demands import Group as GroupName
from trainfit.resolve.plan import Layout


class Group(NamedTuple):
    """Ranks that are `stride` apart."""

    size: int
    stride: int


class Sizes(NamedTuple):
    """All of a layout that decides who exchanges with whom within a stage, and between stages."""

    tp: int
    cp: int
    ep: int
    etp: int
    dp: int
    expert_dp: int


def sizes_of(layout: Layout) -> Sizes:
    return Sizes(layout.tp, layout.cp, layout.ep, layout.etp, layout.dp, layout.expert_dp)


class Links:
    """The links of a layout on GPUs of one kind."""

    def __init__(self, gpu: GpuSpeed, cluster: ClusterEfficiency, sizes: Sizes) -> None:
        self.gpu = gpu
        self.cluster = cluster
        self._link = gpu.link_bytes_per_second * cluster.link_efficiency
        nic = cluster.nic_bytes_per_second or gpu.nic_bytes_per_second
        self._nic = nic * cluster.nic_efficiency
        tp, cp, ep, etp, dp, expert_dp = sizes
        self.groups: dict[GroupName, Group] = {
            "tp": Group(tp, 1),
            "cp": Group(cp, tp),
            "ep": Group(ep, etp),
            "etp": Group(etp, 1),
        }
        self.dense = Group(dp * cp, tp)
        """Ranks that hold the same dense weights."""
        self.expert = Group(expert_dp, etp * ep)
        """Those that hold the same experts."""
        self.stages = Group(2, tp * cp * dp)
        """A rank and its neighbour of the next stage."""

    def exchange(self, exchange: Collective) -> tuple[float, float]:
        """Seconds of what ranks exchange within a block, forward and backward."""
        group = self.groups[exchange.group]
        if group.size == 1:
            return 0.0, 0.0
        if exchange.pattern == "all_to_all":
            each = self._all_to_all(group, exchange.copies)
            steps = self.cluster.all_to_all_latency_seconds
        else:
            each, steps = self._gather(group), self._latency(group)
        forward, backward = exchange.forward, exchange.backward
        return each * forward + steps * (forward > 0), each * backward + steps * (backward > 0)

    def gather(self, size: float, group: Group) -> float:
        """Seconds in which every rank gets, or adds up, `size` bytes that all have together."""
        if group.size == 1 or not size:
            return 0.0
        return size * self._gather(group) + self._latency(group)

    def send(self, size: float, *, scattered: bool) -> float:
        """Seconds in which a rank sends bytes to the next stage. Scattered, each of the ranks that
        hold the same sends its part of it, and they gather the whole there.
        """
        if scattered:
            tp = self.groups["tp"]
            return self.send(size / tp.size, scattered=False) + self.gather(size, tp)
        bandwidth = self._link if self._inside(self.stages) else self._nic
        return size / bandwidth + self._latency(self.stages)

    def _inside(self, group: Group) -> bool:
        """Whether all of a group are in one domain."""
        return group.size * group.stride <= self.gpu.domain

    def _latency(self, group: Group) -> float:
        """Seconds of a collective in steps however little it moves."""
        cluster = self.cluster
        inside = self._inside(group)
        step = cluster.link_latency_seconds if inside else cluster.nic_latency_seconds
        return step * log2(group.size)

    def _gather(self, group: Group) -> float:
        """Seconds for each byte of the whole: a ring passes the network by every local member's
        NIC.
        """
        size, stride = group
        if self._inside(group):
            reached = self._within(size)
        else:
            local = max(1, min(size, self.gpu.domain // stride))
            reached = min(self._link, self._nic * local)
        return (size - 1) / size / reached

    def _all_to_all(self, group: Group, copies: int) -> float:
        """Seconds for rows to other ranks: what is far goes by the rank's own NIC, once for all
        copies that go to one node where these share the way.
        """
        size, stride = group
        local = max(1, min(size, self.gpu.domain // stride))
        near = (size - 1) / size / self._within(local)
        nodes = size / local
        if nodes <= 1:
            return near
        far = (nodes - 1) / nodes
        if copies > 1:
            far *= nodes * (1 - (1 - 1 / nodes) ** copies) / copies
        return max(near, far / self._nic)

    def _within(self, size: int) -> float:
        """Bytes a second between GPUs of one domain: of a mesh few have few links."""
        gpu = self.gpu
        if gpu.meshed and size > 1:
            return self._link * (size - 1) / (gpu.domain - 1)
        return self._link

"""What a step runs on: its GPU, its software, its network, and what a caller measured of them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from trainfit.catalog.speed import ClusterEfficiency, GpuSpeed, Stack, clusters, gpu_speeds, stacks
from trainfit.resolve.plan import Plan
from trainfit.specs.speed import KnownSpeed, MeasuredProduct

Measured = tuple[MeasuredProduct, ...]


class Surroundings(NamedTuple):
    """What a step runs on, and products that were measured there."""

    gpu: GpuSpeed
    stack: Stack
    cluster: ClusterEfficiency
    products: Measured = ()


def surroundings(plan: Plan) -> Surroundings | None:
    """What the plan says of them, else its framework in a usual cluster; None where the GPU's speed
    is not known.
    """
    return surroundings_on(plan.gpu.name, plan.framework.name, plan.speed)


def surroundings_on(gpu_name: str, framework: str, speed: KnownSpeed | None) -> Surroundings | None:
    """Those of a framework on GPUs of a name, by what is said of their speed."""
    gpu = gpu_speeds().get(gpu_name)
    return None if gpu is None else _surroundings(gpu, framework, speed or KnownSpeed())


@lru_cache(maxsize=64)
def _surroundings(gpu: GpuSpeed, framework: str, speed: KnownSpeed) -> Surroundings:
    """Equal ones are the same, so that what rests on them is remembered."""
    cluster = clusters()["usual"]
    if speed.nic_bytes_per_second is not None:
        cluster = replace(cluster, nic_bytes_per_second=speed.nic_bytes_per_second)
    if speed.link_bus_bytes_per_second is not None:
        reached = speed.link_bus_bytes_per_second / gpu.link_bytes_per_second
        cluster = replace(cluster, link_efficiency=reached)
    if speed.network_bus_bytes_per_second is not None:
        # A ring of all GPUs passes the network by the NICs of a whole domain.
        nic = cluster.nic_bytes_per_second or gpu.nic_bytes_per_second
        reached = speed.network_bus_bytes_per_second / gpu.domain / nic
        cluster = replace(cluster, nic_efficiency=reached)
    return Surroundings(gpu, stacks()[speed.stack or framework], cluster, speed.products)

"""How fast things are: GPUs and their links, software stacks, clusters.

Three files hold the constants of step time: what a GPU reaches of its peaks, what a stack of
software launches and hides, what a network delivers. docs/step-time.md says what each stands for
and where it is from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from trainfit.catalog.gpus import find_gpu


@dataclass(frozen=True, slots=True)
class KernelEfficiency:
    """What kernels reach of a GPU's dense peaks and of its memory's bandwidth, as ratios: products
    in bf16 and in fp8, attention (of the bf16 peak) by the fastest kernel and by FlashAttention-2,
    and what only reads and writes memory. The softmax of a score takes as long as the products of
    so many features of a head (`softmax_width`), of two FLOP in bf16 each: a multiprocessor of H100
    runs 4,096 FLOP and 16 exponentials a clock, of A100 and MI300X half as many FLOP, of B200 twice
    as many, of B300 those and 32 exponentials (2407.08608; FlashAttention-4, together.ai; NVIDIA's
    blog on Blackwell Ultra).
    """

    name: str
    softmax_width: int
    bf16: float
    fp8: float | None
    attention: float
    flash2: float
    memory: float
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class GpuSpeed:
    """A GPU's peaks and links. `domain` is the number of GPUs that reach each other over the
    `link`; beyond it each has its share of the node's NICs, in one direction.
    """

    name: str
    bf16_flops: int
    fp8_flops: int | None
    fp4_flops: int | None
    memory_bytes_per_second: int
    multiprocessors: int
    link_bytes_per_second: int
    domain: int
    nic_bytes_per_second: int
    host_bytes_per_second: int
    meshed: bool
    """Every GPU of a domain has links of its own to each other one, in place of a switch."""
    reach: KernelEfficiency


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """A framework as it runs, by name, and what it is. What its products, its grouped products of
    experts, and its kernels that only move memory reach of what the GPU's best do, whether its
    attention is FlashAttention-2 rather than the GPU's best kernel, and what it reaches of either;
    seconds of the host for each operation of a layer, and of one with experts, where it waits for
    the number of tokens that each has, and how many times as long it takes for such a layer in
    pieces; whether the GPU waits for each launch (CUDA_LAUNCH_BLOCKING); the shares of exchanges
    that it hides behind arithmetic, of tensor- and expert-parallel ones more where a job has them
    overlapped. Of what data-parallel ranks exchange a `floor` stays exposed, and no more is hidden
    than that share of the passes beside it: gradients once a step (`data`), weights that are
    gathered for every pass (`gathered`). Its runs were `compared` on GPUs of these reaches, some
    with weights gathered for every pass or none (`gathers_compared`), and in 85 of 100 were no
    further from what is expected than by `spread`, or by `spread_experts` where the model has
    experts.
    """

    name: str
    what: str
    framework: str
    products: float
    grouped: float
    memory: float
    flash2: bool
    attention: float
    scatters_sends: bool
    host_seconds: float
    expert_host_seconds: float
    pieces_host_ratio: float
    blocks_launches: bool
    tensor_hidden: float
    tensor_overlapped: float
    expert_hidden: float
    expert_overlapped: float
    pipeline_hidden: float
    data_hidden: float
    data_floor: float
    gathered_hidden: float
    gathered_floor: float
    spread: float
    spread_experts: float
    compared: tuple[str, ...]
    gathers_compared: bool
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ClusterEfficiency:
    """What collectives reach of links and NICs, how long they take with every doubling of their
    ranks however little they move, an all-to-all with any number of them, and how much the slowest
    of all ranks adds with every doubling of their number beyond a node. Where its NICs are not the
    GPU's usual ones, it says how much each GPU has of them; and of `products` how much its machines
    reach of what others with such GPUs do.
    """

    name: str
    link_efficiency: float
    nic_efficiency: float
    link_latency_seconds: float
    nic_latency_seconds: float
    all_to_all_latency_seconds: float
    jitter_per_doubling: float
    nic_bytes_per_second: int | None
    products: float
    sources: tuple[str, ...]


@cache
def gpu_speeds() -> dict[str, GpuSpeed]:
    """The GPUs whose links are known, by their names in the catalogue."""
    document = _read("gpus.json")
    reaches = {each["name"]: KernelEfficiency(**each) for each in document["reaches"]}
    return {
        name: _gpu(name, facts, reaches) for facts in document["gpus"] for name in facts["names"]
    }


@cache
def stacks() -> dict[str, Stack]:
    """Every software stack by its name; those of the frameworks have theirs."""
    return {each["name"]: Stack(**_frozen(each)) for each in _read("stacks.json")["stacks"]}


@cache
def clusters() -> dict[str, ClusterEfficiency]:
    """Every kind of cluster by its name; "usual" where nothing is said."""
    return {
        each["name"]: ClusterEfficiency(**_frozen(each))
        for each in _read("clusters.json")["clusters"]
    }


def _gpu(name: str, facts: dict[str, Any], reaches: dict[str, KernelEfficiency]) -> GpuSpeed:
    card = find_gpu(name)
    assert card.bf16_flops is not None
    return GpuSpeed(
        name=name,
        bf16_flops=card.bf16_flops,
        fp8_flops=card.fp8_flops,
        fp4_flops=facts.get("fp4_flops"),
        memory_bytes_per_second=card.memory_bandwidth_bytes_per_second,
        multiprocessors=facts["multiprocessors"],
        link_bytes_per_second=facts["link_bytes_per_second"],
        domain=facts["domain"],
        nic_bytes_per_second=facts["nic_bytes_per_second"],
        host_bytes_per_second=facts["host_bytes_per_second"],
        meshed=facts["meshed"],
        reach=reaches[facts["reaches"]],
    )


def _frozen(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(it) if isinstance(it, list) else it for key, it in facts.items()}


def _read(name: str) -> Any:
    return json.loads(files("trainfit.catalog").joinpath("speed", name).read_text("utf-8"))

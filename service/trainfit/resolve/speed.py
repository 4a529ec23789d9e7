"""What a job says of its speed, where it cannot be so."""

from trainfit.catalog.speed import GpuSpeed, gpu_speeds, stacks
from trainfit.resolve.findings import Findings, put
from trainfit.specs.job import Job
from trainfit.specs.speed import KnownSpeed

IN_SWITCHES = 2
"""Bus bandwidth of collectives to that of the links, at most: switches that add up (NVLS) halve
what each GPU sends of an all-reduce, and nccl-tests count as if it sent all."""
BOOSTED = 1.2
"""Products to the dense peak, at most: that is of the data sheet's clock, and cards run above it.
Those of an RTX 3090 were measured at 1.08, of an RTX 4090 at 1.05
(zzc0721/torch-performance-test-data@bbb8e247d5dc, database.md)."""


def refuse_impossible(job: Job, gpu_name: str, findings: Findings) -> None:
    """Software of another framework, and what is faster than the GPU."""
    if job.speed is None:
        return
    _refuse_other_stack(job, job.speed, findings)
    gpu = gpu_speeds().get(gpu_name)
    if gpu is not None:
        _refuse_faster(job.speed, gpu, findings)


def _refuse_other_stack(job: Job, speed: KnownSpeed, findings: Findings) -> None:
    if speed.stack is None:
        return
    name, stack = job.framework.name, stacks()[speed.stack]
    if stack.framework != name:
        message = f"{stack.what} runs {stack.framework}, the job {name}"
        findings.add("/speed/stack", "conflict", message, put("/speed/stack", name))


def _refuse_faster(speed: KnownSpeed, gpu: GpuSpeed, findings: Findings) -> None:
    for place, each in enumerate(speed.products):
        peak = gpu.fp8_flops if each.precision == "fp8" else gpu.bf16_flops
        reached = 2 * each.m * each.n * each.k / each.seconds
        if peak is not None and reached > BOOSTED * peak:
            message = (
                f"{reached / 1e12:,.0f} TFLOP/s are more than the GPU's dense peak of "
                f"{peak / 1e12:,.0f}"
            )
            findings.add(f"/speed/products/{place}/seconds", "conflict", message)
    bus = speed.link_bus_bytes_per_second
    if bus is not None and bus > IN_SWITCHES * gpu.link_bytes_per_second:
        message = (
            f"{bus / 1e9:,.0f} GB/s are more than collectives reach of links of "
            f"{gpu.link_bytes_per_second / 1e9:,.0f} GB/s"
        )
        findings.add("/speed/link_bus_bytes_per_second", "conflict", message)

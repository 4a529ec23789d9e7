"""The GPU that a caller means: as the catalogue knows it, or as the caller describes it."""

from trainfit.catalog.gpus import UnknownGpuError, find_gpu
from trainfit.resolve.findings import Finding, RefusedError, put
from trainfit.resolve.plan import TargetGpu
from trainfit.specs.gpu import CustomGpu, JobGpu

GIB = 2**30

NO_GPU = TargetGpu("", 0, "")


def gpu_of(gpu: JobGpu | None) -> TargetGpu:
    """The GPU of this name, or of this memory. Raises UnknownGpuError, and RefusedError where
    name and memory exclude each other.
    """
    if gpu is None:
        return NO_GPU
    if isinstance(gpu, CustomGpu):
        if gpu.memory_bytes is not None:
            _check_memory(gpu.name, gpu.memory_bytes)
            return TargetGpu(gpu.name, gpu.memory_bytes, "")
        gpu = gpu.name
    found = find_gpu(gpu)
    return TargetGpu(found.name, found.reported_bytes, found.compute_capability or "", found.vendor)


def _check_memory(name: str, memory_bytes: int) -> None:
    """Raise RefusedError where a GPU of the catalogue is said to have more memory than it is sold
    with. It may have less: a slice of it, or what others leave.
    """
    try:
        known = find_gpu(name)
    except UnknownGpuError:
        return
    if memory_bytes <= max(known.marketing_gb * GIB, known.reported_bytes):
        return
    message = (
        f"a GPU of the name {known.name} reports {known.reported_bytes} bytes, not "
        f"{memory_bytes}: name it alone, or call another GPU something else"
    )
    change = put("/gpu", known.name)
    raise RefusedError((Finding("/gpu/memory_bytes", "conflict", message, (change,)),))

"""What a run has left behind: texts that it printed."""

from typing import Annotated, Literal

from pydantic import Field

from trainfit.specs.part import Part

LogFormat = Literal[
    "automodel",
    "axolotl",
    "composer",
    "dcgm",
    "deepspeed",
    "liger-kernel",
    "lingua",
    "litgpt",
    "llama-cookbook",
    "llama-factory",
    "megatron",
    "megatron-bridge",
    "memory_stats",
    "memory_summary",
    "memory_timeline",
    "ms-swift",
    "nanochat",
    "nanotron",
    "nemo",
    "nvidia-smi",
    "out of memory",
    "primus",
    "slime",
    "torchtitan",
    "torchtune",
    "transformers",
    "unsloth",
    "verl",
    "xtuner",
]
Counter = Literal[
    "allocated_bytes.all.current",
    "allocated_bytes.all.peak",
    "active_bytes.all.current",
    "active_bytes.all.peak",
    "requested_bytes.all.current",
    "requested_bytes.all.peak",
    "inactive_split_bytes.all.current",
    "inactive_split_bytes.all.peak",
    "reserved_bytes.all.current",
    "reserved_bytes.all.peak",
    "reserved_unallocated",
    "tried_to_allocate",
    "process_used",
    "device_used",
    "device_free",
    "device_capacity",
]
"""torch.cuda.memory_stats' names, and what is no counter of PyTorch's: what an error of a memory
that is full tells, and what the driver tells of a process and of the GPU."""

PeakWindow = Literal["run", "log", "phase"]
"""Since when a peak is the highest: the beginning of the run or of a phase, or the line before."""

Event = Literal["num_alloc_retries", "num_ooms", "driver_ooms"]
"""What torch.cuda.memory_stats counts, and errors of the driver's own memory, which PyTorch's
allocator had no part in.
"""

MAX_TEXT_LENGTH = 8 * 1024**2
MAX_ARTIFACTS = 64


class Place(Part):
    """A line of one of the texts, counted from 1."""

    name: Annotated[str, Field(max_length=512)]
    line: Annotated[int, Field(ge=0, le=2**31)]


class Artifact(Part):
    """A log, or a part of one."""

    name: Annotated[str, Field(min_length=1, max_length=512)] = Field(
        ..., description="What measurements say that they are from."
    )
    text: Annotated[str, Field(max_length=MAX_TEXT_LENGTH)]
    format: LogFormat | None = Field(
        None, description="What alone is read of it. Unset: every format that a line has."
    )


class Artifacts(Part):
    """What is read for measurements."""

    artifacts: Annotated[tuple[Artifact, ...], Field(strict=False, max_length=MAX_ARTIFACTS)]

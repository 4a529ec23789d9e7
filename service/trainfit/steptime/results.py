"""What the time of a step is said as. Frozen dataclasses, serialised as they stand."""

from dataclasses import dataclass, fields
from typing import Literal

Basis = Literal["calibrated", "known_stack", "extrapolated"]
"""Own runs of this model were compared, or runs of this framework on such GPUs, or constants of
others stand in."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds: what is expected, and bounds that most of the compared runs have stayed within."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True, slots=True)
class StepParts:
    """The expected seconds of a step, on its slowest pipeline rank, which add up to the whole.

    `compute_seconds` are the kernels of every micro-batch, run again where that is recomputed, and
    `host_seconds` those in which a GPU waits for the host to launch the next. Exchanges count as
    far as nothing hides them: of tensor, context, expert and data parallel ranks, between pipeline
    stages, and with host memory. `bubble_seconds` is what the pipeline idles, `optimizer_seconds`
    the optimizer's step, `jitter_seconds` the wait for the slowest of many ranks.
    """

    compute_seconds: float
    host_seconds: float
    tensor_parallel_seconds: float
    context_parallel_seconds: float
    expert_parallel_seconds: float
    data_parallel_seconds: float
    pipeline_parallel_seconds: float
    offload_seconds: float
    bubble_seconds: float
    optimizer_seconds: float
    jitter_seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """One step, of all its micro-batches, on GPUs that do nothing else: what its time is made of,
    and what it comes to.

    `model_flops_utilization_ratio` counts the products of forward and backward once, causal
    attention half, nothing that is recomputed, against the dense bf16 peak. Where own runs were
    compared, `uncalibrated_seconds` are what is said without them.
    """

    parts: StepParts
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    model_flops_per_gpu: float
    model_flops_utilization_ratio: float
    basis: Basis
    uncalibrated_seconds: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime(Step):
    """A step with its seconds."""

    seconds: Seconds

    @property
    def step(self) -> Step:
        """The step without its seconds."""
        return Step(**{field.name: getattr(self, field.name) for field in fields(Step)})


@dataclass(frozen=True, slots=True)
class Untimed:
    """Why no time is said."""

    reason: str

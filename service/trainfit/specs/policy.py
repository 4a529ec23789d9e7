"""A question about fit: a job, the caller's policy, and what else to look for."""

from typing import Annotated, Literal

from pydantic import Field

from trainfit.specs.gpu import JobGpu
from trainfit.specs.job import Job
from trainfit.specs.part import Bytes, Part


class Override(Part):
    """A verdict that passes nevertheless, and why."""

    verdict: Literal["tight", "unknown"] = Field(..., description="What is let through.")
    reason: Annotated[str, Field(min_length=1, max_length=500)] = Field(
        ..., description="Who decided so and why; repeated in the answer."
    )


class Headroom(Part):
    """What the caller keeps free of the GPU.

    Nothing is kept free unless asked for: the interval of an estimate is its margin.
    """

    headroom_ratio: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        0.0, description="Share of the usable memory to stay free; the larger headroom holds."
    )
    headroom_bytes: Bytes = Field(0, description="Bytes to stay free; the larger headroom holds.")
    reserved_other_bytes: Bytes = Field(
        0,
        description="What other processes hold on the GPU, beside what gpu.reserved_other_bytes "
        "says.",
    )


class Policy(Headroom):
    """What the caller keeps free of the GPU, and which verdicts pass besides fits."""

    allow: Annotated[tuple[Override, ...], Field(strict=False, max_length=8)] = Field(
        (), description="Verdicts that pass besides fits, each with a reason."
    )


class Limits(Part):
    """Which largest values that still fit are looked for."""

    micro_batch_size: bool = Field(False, description="The largest micro_batch_size that fits.")
    seq_length: bool = Field(False, description="The longest seq_length that fits.")


class FitCheckOptions(Part):
    """A question about a job and a GPU, whichever way they are described."""

    policy: Policy = Field(default_factory=Policy)
    limits: Limits = Field(default_factory=Limits)
    suggest: bool = Field(True, description="Look for changes that help where it does not fit.")
    replay: bool = Field(
        True,
        description="Whether the requests to PyTorch's allocator are replayed. false: what is "
        "reserved rests on a ratio, with wider bounds, in a hundredth of the time.",
    )


class FitCheckRequest(FitCheckOptions, Job):
    """A job, the GPU that it is to fit, and the policy."""

    gpu: JobGpu = Field(
        ..., description="Catalogue name or alias, or an object that says name or memory_bytes."
    )

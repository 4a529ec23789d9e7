"""What a recording of PyTorch's allocator says, small enough to be sent."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainfit.specs.part import Bytes, Part

MAX_GROUPS = 1024
MAX_FRAMES = 8

Number = Annotated[int, Field(ge=0, le=2**31)]
Phase = Literal["before", "forward", "backward", "optimizer"]
"""When something was asked for: before the recording began, or by whom within a step."""


class TensorGroup(Part):
    """So many blocks of one size that were there at the peak, asked for in one phase at one place.
    `kept` says that they were there when the recording ended, too.
    """

    bytes: Bytes
    count: Annotated[int, Field(ge=1, le=2**31)]
    phase: Phase
    kept: bool
    stack: Annotated[
        tuple[Annotated[str, Field(max_length=256)], ...],
        Field(strict=False, max_length=MAX_FRAMES),
    ] = Field((), description="Functions with their files, the innermost first.")


class SegmentGroup(Part):
    """So many segments of one size that were reserved when the recording ended, and what of them
    was in use.
    """

    bytes: Bytes
    count: Annotated[int, Field(ge=1, le=2**31)]
    allocated_bytes: Bytes
    kind: Literal["small", "large"]
    expandable: bool


class SnapshotSummary(Part):
    """A recording of torch.cuda.memory, as `trainfit snapshot summarize` prints it: the blocks at
    its peak, and what was reserved in the end.
    """

    rank: Number | None = Field(None, description="Whose it is, among all GPUs of the run.")
    events: Number
    wrapped: bool = Field(
        ..., description="Whether the beginning was lost: max_entries was too small."
    )
    expandable_segments: bool
    peak_bytes: Bytes
    peak: Annotated[tuple[TensorGroup, ...], Field(strict=False, max_length=MAX_GROUPS)]
    rest_bytes: Bytes = Field(0, description="What the smallest groups have, which are left out.")
    allocated_bytes: Bytes
    reserved_bytes: Bytes
    segments: Annotated[tuple[SegmentGroup, ...], Field(strict=False, max_length=MAX_GROUPS)]
    out_of_memory: Number = Field(0, description="How often no room was found.")
    released_segments: Number = Field(0, description="How many were given back to the GPU.")

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if sum(each.bytes * each.count for each in self.peak) + self.rest_bytes > self.peak_bytes:
            raise ValueError("peak has more bytes than peak_bytes")
        return self

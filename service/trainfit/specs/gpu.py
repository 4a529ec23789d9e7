"""The GPU that every rank runs on."""

from typing import Annotated, Self

from pydantic import Field, model_validator
from typing_extensions import TypeAliasType

from trainfit.specs.part import MAX_SAFE_INTEGER, Part

GpuName = Annotated[str, Field(min_length=1, max_length=64)]


MAX_MEMORY_BYTES = 2**42
"""4 TiB: several times what any GPU has, or is announced to have."""


class CustomGpu(Part):
    """A GPU of the catalogue by its name, or any other by its memory."""

    name: GpuName = Field(
        "custom",
        description="Catalogue name or alias; beside memory_bytes, what to call the GPU.",
    )
    memory_bytes: Annotated[int, Field(ge=1, le=MAX_MEMORY_BYTES)] | None = Field(
        None,
        description="What the driver reports as total memory. Unset: what the catalogue says of "
        "the GPU of this name.",
    )
    reserved_other_bytes: Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)] = Field(
        0, description="What other processes hold on the GPU."
    )

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        if self.memory_bytes is None and "name" not in self.model_fields_set:
            raise ValueError("give the name of a GPU of the catalogue, or memory_bytes")
        return self


JobGpu = TypeAliasType("JobGpu", GpuName | CustomGpu)
"""A GPU as a caller names it; a name of its own in the contract, for generated clients."""

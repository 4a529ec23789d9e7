"""The card that every rank runs on."""

from typing import Annotated

from pydantic import Field

from trainfit.specs.part import MAX_SAFE_INTEGER, Part

GpuName = Annotated[str, Field(min_length=1, max_length=64)]


class CustomGpu(Part):
    """A card by its memory, where the catalogue does not list it."""

    name: GpuName = Field("custom", description="What to call it.")
    memory_bytes: Annotated[int, Field(ge=1, le=MAX_SAFE_INTEGER)] = Field(
        ..., description="What the driver reports as total memory."
    )
    reserved_other_bytes: Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)] = Field(
        0, description="What other processes hold on the card."
    )


Gpu = GpuName | CustomGpu

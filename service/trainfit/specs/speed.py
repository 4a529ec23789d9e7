"""What is known of the software, the network and the kernels that a job's steps run on."""

from typing import Annotated, Literal

from pydantic import Field

from trainfit.specs.part import Part

StackName = Literal[
    "megatron",
    "megatron-bridge-26.06",
    "megatron-bridge",
    "megatron-bridge-25",
    "megatron-2023",
    "megatron-2022",
    "megatron-lm-2022",
    "torchtitan",
    "transformers",
    "llm-foundry",
    "nanotron",
]
"""Software of which runs were compared, as the catalogue has it."""

MAX_PRODUCTS = 64

Size = Annotated[int, Field(ge=1, le=16_777_216)]
Rate = Annotated[int, Field(ge=1_000_000, le=10**14)]


class MeasuredProduct(Part):
    """How long a GPU took to multiply a matrix [m, k] with one [k, n]."""

    m: Size
    n: Size
    k: Size
    precision: Literal["bf16", "fp8"] = Field("bf16", description="Of what is multiplied.")
    seconds: Annotated[float, Field(ge=1e-7, le=3600.0)] = Field(
        ..., description="Of one product of many behind each other."
    )


class KnownSpeed(Part):
    """What the time of a step rests on, where it is not the usual. No memory follows from it."""

    stack: StackName | None = Field(
        None,
        description="The software whose kernels, launches and overlap are meant. Unset: the "
        "framework's own of 2025, of Megatron Megatron-LM. megatron-bridge-26.06 are the "
        "containers 26.06 and 26.08, megatron-bridge 26.02, 26.04 and NeMo, megatron-bridge-25 "
        "25.09 and 25.11.",
    )
    nic_bytes_per_second: Rate | None = Field(
        None,
        description="What each GPU has of its node's NICs, in one direction. Unset: what it "
        "usually has.",
    )
    link_bus_bytes_per_second: Rate | None = Field(
        None, description="The bus bandwidth that nccl-tests print of the GPUs of a node."
    )
    network_bus_bytes_per_second: Rate | None = Field(
        None, description="The bus bandwidth that nccl-tests print of all GPUs of several nodes."
    )
    products: Annotated[
        tuple[MeasuredProduct, ...], Field(strict=False, max_length=MAX_PRODUCTS)
    ] = Field(
        (),
        description="Products that were measured on this GPU. One of the same sizes takes as "
        "long; others are as much slower or faster than expected as those most like them.",
    )

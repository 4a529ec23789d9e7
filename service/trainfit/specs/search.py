"""A question about layouts: a job that leaves some of its layout open, and what is sought."""

from collections.abc import Mapping
from math import prod
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Tag, model_validator

from trainfit.specs.gpu import JobGpu
from trainfit.specs.job import Job
from trainfit.specs.launch import LaunchedJob, which
from trainfit.specs.parallelism import Size, StageSize
from trainfit.specs.part import Part
from trainfit.specs.policy import Headroom

Objective = Literal[
    "fastest",
    "fewest_gpus",
    "cheapest",
    "most_headroom",
    "longest_sequence",
    "largest_micro_batch",
]

BY_TIME: tuple[Objective, ...] = ("fastest", "fewest_gpus", "cheapest")
"""Objectives that the time of a step decides, or decides where GPUs are as many."""

MAX_CARDS = 8
MAX_ALTERNATIVES = 16
"""Jobs that the listed values of further fields make, all combinations together."""

Pointer = Annotated[str, Field(max_length=256, pattern=r"^/(training|framework)/")]
Values = Annotated[tuple[Any, ...], Field(strict=False, min_length=1, max_length=MAX_ALTERNATIVES)]
Price = Annotated[float, Field(gt=0.0, le=1e6)]


class SearchOptions(Part):
    """What is sought, and within what."""

    objective: Objective = Field(
        "fastest",
        description="fastest: most tokens per second. fewest_gpus: that fit, and reach "
        "min_tokens_per_second. cheapest: least paid for a token. most_headroom: most memory free. "
        "longest_sequence, largest_micro_batch: the largest that fits.",
    )
    max_gpus: Size = Field(
        1024, description="The most GPUs that are tried where the job gives no num_gpus."
    )
    gpus: Annotated[tuple[JobGpu, ...], Field(strict=False, max_length=MAX_CARDS)] = Field(
        (), description="GPUs to choose from, in the place of the job's gpu."
    )
    max_tp: StageSize | None = Field(
        None,
        description="The largest tp that is tried. Unset: the GPUs of a node.",
    )
    accept: Literal["fits", "tight"] = Field(
        "fits", description="The verdict that a layout has to have, or a better one."
    )
    policy: Headroom = Field(
        default_factory=Headroom, description="What is to stay free of the GPU."
    )
    min_tokens_per_second: Annotated[float, Field(gt=0.0, le=1e12)] | None = Field(
        None, description="Of the whole job; slower layouts are left out."
    )
    price_per_gpu_hour: (
        Price | Annotated[Mapping[str, Price], Field(max_length=MAX_CARDS)] | None
    ) = Field(None, description="In any currency; of each GPU by its name where they differ.")
    alternatives: Annotated[Mapping[Pointer, Values], Field(max_length=4)] = Field(
        default_factory=dict,
        description="Values to choose from of further fields, by JSON Pointers into the job: "
        '{"/training/precision": ["bf16", "fp8"]}.',
    )
    best: Annotated[int, Field(ge=1, le=20)] = Field(5, description="Layouts that are answered.")

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.min_tokens_per_second is not None and self.objective not in BY_TIME:
            raise ValueError(f"min_tokens_per_second goes with {', '.join(BY_TIME)}")
        if self.objective == "cheapest" and self.price_per_gpu_hour is None:
            raise ValueError("cheapest needs a price_per_gpu_hour")
        return self

    @model_validator(mode="after")
    def _has_few_alternatives(self) -> Self:
        if prod(map(len, self.alternatives.values())) > MAX_ALTERNATIVES:
            raise ValueError(f"alternatives make more than {MAX_ALTERNATIVES} jobs together")
        return self


class SearchRequest(SearchOptions, Job):
    """A job of which every field given is kept, and every absent field of the layout is sought:
    num_gpus, tp, pp, vpp, cp, ep, etp, the split of layers, the sharding, micro_batch_size,
    recompute, offload and the GPU. Nothing else changes but what `alternatives` lists.
    """

    @model_validator(mode="after")
    def _names_a_card(self) -> Self:
        if self.gpu is None and not self.gpus:
            raise ValueError("name the GPU in gpu, or several to choose from in gpus")
        if self.gpu is not None and self.gpus:
            raise ValueError("give either gpu or gpus")
        return self


class LaunchedSearch(SearchOptions, LaunchedJob):
    """A launch in the place of a job: its task is kept, and what it says of the layout is sought
    anew but for what its `overrides` say. Its number of GPUs is kept unless the fewest are sought.
    """


SearchOrLaunch = Annotated[
    Annotated[SearchRequest, Tag("SearchRequest")]
    | Annotated[LaunchedSearch, Tag("LaunchedSearch")],
    which(SearchRequest, LaunchedSearch),
]

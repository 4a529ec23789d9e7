"""What runs of a cluster were seen to take beyond their tensors. It is sent with a job."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from trainfit.specs.framework import FrameworkName
from trainfit.specs.part import Bytes, Count, Part
from trainfit.specs.precision import Narrow

MAX_LAYOUTS = 64

Named = Annotated[str, Field(min_length=1, max_length=128)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Ratio = Annotated[float, Field(ge=0.0, le=10.0)]


class Bounds(Part):
    """Bytes: what is expected, and the bounds."""

    low: Bytes
    expected: Bytes
    high: Bytes

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low <= self.expected <= self.high:
            raise ValueError("low, expected and high are not in this order")
        return self


class Ratios(Part):
    """A ratio: what is expected, and the bounds."""

    low: Ratio
    expected: Ratio
    high: Ratio

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low <= self.expected <= self.high:
            raise ValueError("low, expected and high are not in this order")
        return self


class Cluster(Part):
    """Where something was measured. What is not of this GPU, framework and allocator was not; the
    versions are the caller's to compare.
    """

    gpu_name: Named
    framework_name: FrameworkName
    allocator: Literal["default", "expandable_segments"]
    driver: Named | None = None
    nccl: Named | None = None
    torch: Named | None = None


Trained = Literal["all", "adapters", "adapters_on_quantized"]
"""What a step trains, which decides what requests it makes beside its tensors."""


class Outside(Part):
    """What lay outside PyTorch on the GPUs of runs with so many communicators: they and the CUDA
    context are one sum. `exchanges` says whether tokens went to experts of other ranks.
    """

    communicators: Annotated[int, Field(ge=0, le=64)]
    exchanges: bool
    replayed: Trained | None = Field(
        None,
        description="What the runs trained whose reserved memory was not measured but replayed: "
        "how far off that was is in the bounds, which are narrower for jobs that train the same. "
        "Null: it was measured.",
    )
    bytes: Bounds
    runs: Count


class Replays(Part):
    """What runs reserved, relative to what their requests were replayed to: the least, the median
    and the most. They train the same, and told it themselves.
    """

    trains: Trained
    reserved_ratio: Ratios
    runs: Count


class Paces(Part):
    """How long the steps of runs of one model took, relative to what is expected of them. Runs in
    another precision say nothing of it, nor do those within the links of a node of those beyond.
    """

    model_digest: Digest = Field(
        ..., description="SHA-256 of the model's dimensions, and of the speed that was given."
    )
    fp8_recipe: Narrow | None = Field(
        ..., description="Of fp8 or fp4. Null: linears were in neither."
    )
    beyond_node: bool = Field(..., description="Whether ranks exchanged over a network.")
    seconds_ratio: Ratios
    runs: Count


class Calibration(Part):
    """What runs of a cluster took beyond their tensors, and how long, as POST
    /v1/calibrations:fit answers it. `digest` is a SHA-256 of all the rest.
    """

    cluster: Cluster
    outside: Annotated[tuple[Outside, ...], Field(strict=False, max_length=MAX_LAYOUTS)] = Field(
        ..., description="Context and communicators, by how many of these there were."
    )
    slack_ratio: Ratios | None = Field(
        None, description="What is reserved above what is allocated, relative to that."
    )
    replays: Annotated[tuple[Replays, ...], Field(strict=False, max_length=MAX_LAYOUTS)] = Field(
        (),
        description="What was reserved where requests are replayed, by what was trained. Two runs "
        "whose replays held narrow the bounds of jobs that train the same.",
    )
    paces: Annotated[tuple[Paces, ...], Field(strict=False, max_length=MAX_LAYOUTS)] = Field(
        (), description="How long steps took, of each model by itself."
    )
    runs: Count
    fitted_by: Named = Field(..., description="The version of the estimator.")
    digest: Digest

    @model_validator(mode="after")
    def _is_as_it_was_fitted(self) -> Self:
        if self.digest != digest_of(self.model_dump(mode="json")):
            raise ValueError("it is not what its digest is of: fit it again")
        return self


def digest_of(document: dict[str, Any]) -> str:
    """SHA-256, in hexadecimal, of a calibration without its digest."""
    rest = {name: value for name, value in document.items() if name != "digest"}
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

"""A job: the parts that a caller describes."""

from typing import Annotated

from pydantic import Field, WithJsonSchema

from trainfit.specs.calibration import Calibration
from trainfit.specs.framework import Framework, Megatron
from trainfit.specs.gpu import JobGpu
from trainfit.specs.model import Model
from trainfit.specs.parallelism import Parallelism
from trainfit.specs.part import Part
from trainfit.specs.speed import KnownSpeed
from trainfit.specs.training import Training

EstimatorVersion = Annotated[
    Annotated[str, Field(min_length=1, max_length=64)] | None,
    Field(description="Version of the estimator that is to answer. Unset: whichever is served."),
]


class Job(Part):
    """One training run: a model, its layout, a step, a framework and a GPU. With the version of
    an estimator, it is answered by that one or not at all.
    """

    model: Model
    parallelism: Parallelism = Field(default_factory=Parallelism)
    training: Training = Field(default_factory=Training)
    framework: Framework = Field(default_factory=lambda: Megatron(name="megatron"))
    gpu: JobGpu | None = Field(
        None,
        description="Catalogue name or alias, or an object that says name or memory_bytes. Unset: "
        "no verdict is sought.",
    )
    estimator_version: EstimatorVersion = None
    calibration: Calibration | None = Field(
        None,
        description="What runs of this cluster took beyond their tensors. Unset: what "
        "published runs show.",
    )
    speed: KnownSpeed | None = Field(
        None,
        description="What the time of a step rests on. Unset: the framework's current release in a "
        "usual cluster.",
    )


AS_JOB = WithJsonSchema({"allOf": [{"$ref": "#/components/schemas/Job"}]})
"""Describes a value that is a Job in JSON, but not read as one."""

"""A job: the five parts that a caller describes."""

from pydantic import Field

from trainfit.specs.framework import Framework, Megatron
from trainfit.specs.gpu import Gpu
from trainfit.specs.model import Model
from trainfit.specs.parallelism import Parallelism
from trainfit.specs.part import Part
from trainfit.specs.training import Training


class Job(Part):
    """One training run: a model, its layout, a step, a framework and a card."""

    model: Model
    parallelism: Parallelism = Field(default_factory=Parallelism)
    training: Training = Field(default_factory=Training)
    framework: Framework = Field(default_factory=lambda: Megatron(name="megatron"))
    gpu: Gpu | None = Field(
        None, description="Catalogue name or alias, or memory_bytes. Unset: no verdict is sought."
    )

"""What own runs of a model say of the time of its steps."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from trainfit.catalog.speed import GpuSpeed
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.overhead import calibration_of
from trainfit.resolve.plan import Plan
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.calibration import Paces
from trainfit.specs.precision import Narrow
from trainfit.specs.speed import KnownSpeed


class Carried(NamedTuple):
    """What runs and a plan have in common for the time of one to say something of the other."""

    model_digest: str
    fp8_recipe: Narrow | None
    beyond_node: bool


def carried(plan: Plan, gpu: GpuSpeed) -> Carried:
    """What a calibration carries over to a plan on GPUs of this kind."""
    recipe = framework_of(plan).execution(plan).narrow
    return Carried(_digest(plan.model, plan.speed), recipe, plan.layout.num_gpus > gpu.domain)


def paces_of(plan: Plan, gpu: GpuSpeed) -> Paces | None:
    """What runs of the plan's model, precision and cluster took; None where none were seen."""
    calibration = calibration_of(plan)
    if calibration is None or not calibration.paces:
        return None
    asked = carried(plan, gpu)
    for each in calibration.paces:
        if (each.model_digest, each.fp8_recipe, each.beyond_node) == asked:
            return each
    return None


@lru_cache(maxsize=64)
def _digest(model: ModelSpec, speed: KnownSpeed | None) -> str:
    """SHA-256, in hexadecimal, of a model whatever it is called, and of what else its times were
    told by.
    """
    said = model.model_dump_json(exclude={"name"})
    if speed is not None:
        said += speed.model_dump_json()
    return sha256(said.encode()).hexdigest()

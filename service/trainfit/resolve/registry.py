"""The frameworks that are known: a line for each."""

from collections.abc import Mapping

from trainfit.resolve.framework import Conventions, Framework
from trainfit.resolve.megatron import framework as megatron
from trainfit.resolve.nanotron import framework as nanotron
from trainfit.resolve.pytorch import framework as pytorch
from trainfit.specs.framework import FrameworkName
from trainfit.specs.job import Job

_FRAMEWORKS: Mapping[FrameworkName, Framework] = {
    "megatron": megatron,
    "torchtitan": pytorch,
    "transformers": pytorch,
    "nanotron": nanotron,
}


def framework_of(job: Job) -> Framework:
    """The framework that runs a job."""
    return _FRAMEWORKS[job.framework.name]


def conventions_of(job: Job) -> Conventions:
    """What that framework does where the job does not say."""
    return framework_of(job).conventions(job)

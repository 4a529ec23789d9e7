"""The frameworks that are known: a line for each, and what loads its room. A room is loaded when it
is first asked.
"""

from collections.abc import Callable, Mapping, Sequence

from trainfit.resolve.framework import Conventions, FrameworkResolver
from trainfit.specs.framework import FrameworkName
from trainfit.specs.job import Job


def _megatron() -> FrameworkResolver:
    from trainfit.resolve.megatron import framework

    return framework


def _pytorch() -> FrameworkResolver:
    from trainfit.resolve.pytorch import framework

    return framework


def _nanotron() -> FrameworkResolver:
    from trainfit.resolve.nanotron import framework

    return framework


_FRAMEWORKS: Mapping[FrameworkName, Callable[[], FrameworkResolver]] = {
    "megatron": _megatron,
    "torchtitan": _pytorch,
    "transformers": _pytorch,
    "nanotron": _nanotron,
}


def all_frameworks() -> Sequence[FrameworkResolver]:
    """Every framework, in the order of the registry; one that has several names more than once."""
    return [load() for load in _FRAMEWORKS.values()]


def framework_of(job: Job) -> FrameworkResolver:
    """The framework that runs a job."""
    return _FRAMEWORKS[job.framework.name]()


def conventions_of(job: Job) -> Conventions:
    """What that framework does where the job does not say."""
    return framework_of(job).conventions(job)

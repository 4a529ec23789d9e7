"""The frameworks that are known: a line for each, and what loads its room. A room is loaded when it
is first asked.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from trainfit.estimator.frameworks.framework import AnyPlan, FrameworkEstimator
from trainfit.specs.framework import FrameworkName


@cache
def _megatron() -> FrameworkEstimator[Any]:
    from trainfit.estimator.frameworks.megatron import framework

    return framework


@cache
def _pytorch() -> FrameworkEstimator[Any]:
    from trainfit.estimator.frameworks.pytorch import framework

    return framework


@cache
def _nanotron() -> FrameworkEstimator[Any]:
    from trainfit.estimator.frameworks.nanotron import framework

    return framework


_FRAMEWORKS: Mapping[FrameworkName, Callable[[], FrameworkEstimator[Any]]] = {
    "megatron": _megatron,
    "torchtitan": _pytorch,
    "transformers": _pytorch,
    "nanotron": _nanotron,
}


def all_frameworks() -> Sequence[FrameworkEstimator[Any]]:
    """Every package of frameworks, in the order of the registry."""
    return [load() for load in dict.fromkeys(_FRAMEWORKS.values())]


def framework_of(plan: AnyPlan) -> FrameworkEstimator[AnyPlan]:
    """The framework that runs a plan."""
    return _FRAMEWORKS[plan.framework.name]()

"""The frameworks that are known: a line for each, and what loads its room. A room is loaded when it
is first asked.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from trainfit.estimator.frameworks.framework import AnyPlan, Framework
from trainfit.specs.framework import FrameworkName


@cache
def _megatron() -> Framework[Any]:
    from trainfit.estimator.frameworks.megatron import framework

    return framework


@cache
def _pytorch() -> Framework[Any]:
    from trainfit.estimator.frameworks.pytorch import framework

    return framework


@cache
def _nanotron() -> Framework[Any]:
    from trainfit.estimator.frameworks.nanotron import framework

    return framework


_FRAMEWORKS: Mapping[FrameworkName, Callable[[], Framework[Any]]] = {
    "megatron": _megatron,
    "torchtitan": _pytorch,
    "transformers": _pytorch,
    "nanotron": _nanotron,
}


def all_frameworks() -> Sequence[Framework[Any]]:
    """Every package of frameworks, in the order of the registry."""
    return [load() for load in dict.fromkeys(_FRAMEWORKS.values())]


def framework_of(plan: AnyPlan) -> Framework[AnyPlan]:
    """The framework that runs a plan."""
    return _FRAMEWORKS[plan.framework.name]()

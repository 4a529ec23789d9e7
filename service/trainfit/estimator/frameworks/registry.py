"""The frameworks that are known: a line for each, and what loads its room. A room is loaded when it
is first asked.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from trainfit.estimator.frameworks.framework import AnyPlan, Framework
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.resolve.nanotron.plan import NanotronPlan
from trainfit.resolve.plan import Plan
from trainfit.resolve.pytorch.plan import PytorchPlan


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


_FRAMEWORKS: Mapping[type[Plan], Callable[[], Framework[Any]]] = {
    MegatronPlan: _megatron,
    PytorchPlan: _pytorch,
    NanotronPlan: _nanotron,
}


def all_frameworks() -> Sequence[Framework[Any]]:
    """Every framework, in the order of the registry."""
    return [load() for load in _FRAMEWORKS.values()]


def framework_of(plan: AnyPlan) -> Framework[AnyPlan]:
    """The framework that runs a plan."""
    return _FRAMEWORKS[type(plan)]()

"""The frameworks that are known: a line for each."""

from collections.abc import Iterable, Mapping
from typing import Any

from trainfit.estimator.frameworks.framework import AnyPlan, Framework
from trainfit.estimator.frameworks.megatron import framework as megatron
from trainfit.estimator.frameworks.nanotron import framework as nanotron
from trainfit.estimator.frameworks.pytorch import framework as pytorch
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.resolve.nanotron.plan import NanotronPlan
from trainfit.resolve.plan import Plan
from trainfit.resolve.pytorch.plan import PytorchPlan

_FRAMEWORKS: Mapping[type[Plan], Framework[Any]] = {
    MegatronPlan: megatron,
    PytorchPlan: pytorch,
    NanotronPlan: nanotron,
}


def all_frameworks() -> Iterable[Framework[Any]]:
    """Every framework, in the order of the registry."""
    return _FRAMEWORKS.values()


def framework_of(plan: AnyPlan) -> Framework[AnyPlan]:
    """The framework that runs a plan."""
    return _FRAMEWORKS[type(plan)]

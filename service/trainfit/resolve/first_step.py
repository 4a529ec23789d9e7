"""A plan as it is in its first step: an optimizer makes its moments when it first steps, which is
behind the peak of forward and backward. Kernels of Triton are tuned in it.

Sources: torch/optim/adamw.py (_init_group), TransformerEngine's FusedAdam (initialize_state).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.resolve.nanotron.plan import NanotronPlan
from trainfit.resolve.plan import Plan
from trainfit.resolve.pytorch.plan import PytorchPlan


def first_step(plan: Plan) -> Plan:
    """The plan without moments, which a later step has, and with what a later step does not."""
    match plan:
        case MegatronPlan():
            bare = replace(plan.step.states, each_moment=(), matrix_moments=0)
            return replace(plan, step=replace(plan.step, states=bare, tunes_kernels=True))
        case PytorchPlan():
            none = Fraction(0)
            states = replace(plan.step.states, moments=none, matrix_moments=none)
            return replace(plan, step=replace(plan.step, states=states))
        case NanotronPlan():
            return replace(plan, step=replace(plan.step, optimizer="sgd"))
    return plan

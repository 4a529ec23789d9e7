"""What an optimizer's step borrows. Sources: torch/optim (adamw.py, _adafactor.py, _muon.py)."""

from fractions import Fraction
from math import ceil

from trainfit.resolve.plan import PytorchPlan


def borrowed_share(plan: PytorchPlan) -> Fraction:
    """What stepping one parameter by itself borrows, relative to its gradient."""
    size = 1024
    return Fraction(borrowed(size, size, plan), size * plan.step.states.gradients)


def borrowed(trained: int, largest: int, plan: PytorchPlan) -> int:
    """What the step makes for a moment: foreach a square root of every second moment, or an update
    of every parameter; a loop two tensors of the largest parameter; Muon five in the narrow type.
    """
    optimizer, states = plan.step.optimizer, plan.step.states
    copies = 4 * trained if states.master and states.gradients < states.master else 0
    match optimizer.name, optimizer.implementation:
        case "adam", "foreach":
            return copies + ceil(states.moments / 2) * trained
        case "adam", "for-loop":
            return copies + 2 * ceil(states.moments / 2) * largest
        case "adafactor", "foreach":
            return copies + states.parameters * trained
        case "adafactor", _:
            return copies + 2 * states.parameters * largest
        case "muon", _:
            return copies + 5 * 2 * largest
        case "lion", _:
            return copies + states.parameters * largest
        case _:
            return copies

"""What an optimizer's step borrows, as `specs.optimizers` has it."""

from fractions import Fraction
from math import ceil

from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.optimizers import OPTIMIZERS, Temporaries

BF16 = 2


def borrowed_share(plan: PytorchPlan) -> Fraction:
    """What stepping one parameter by itself borrows, relative to its gradient."""
    size = 1024
    return Fraction(borrowed(size, size, plan), size * plan.step.states.gradients)


def borrowed(trained: int, largest: int, plan: PytorchPlan) -> int:
    """What the step makes for a moment, beside fp32 copies of narrower gradients that DeepSpeed's
    master weights read. `trained` are all parameters that it steps, `largest` those of one tensor.
    """
    optimizer, states = plan.step.optimizer, plan.step.states
    copies = 4 * trained if states.master and states.gradients < states.master else 0
    made = OPTIMIZERS[optimizer.name].temporaries.get(optimizer.implementation)
    if made is None:
        return copies
    size = width_of(made, plan) * (trained if made.of == "all" else largest)
    return copies + made.tensors * size


def width_of(made: Temporaries, plan: PytorchPlan) -> int:
    """Bytes of an element of what the step makes."""
    states = plan.step.states
    widths = {
        "parameter": states.parameters,
        "second moment": ceil(states.moments / 2),
        "bf16": BF16,
    }
    return widths[made.like]

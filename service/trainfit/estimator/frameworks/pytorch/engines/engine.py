"""What an engine of data parallelism adds to a step: what is gathered for a unit and reduced behind
it, which gradients wait for the next micro-batch, and the buffers that stand all the while.
"""

from typing import NamedTuple, Protocol

from trainfit.estimator.frameworks.pytorch.states import Numbers, States
from trainfit.estimator.frameworks.pytorch.units import Accumulated, Unit
from trainfit.resolve.pytorch.plan import PytorchPlan


class StageNumbers(NamedTuple):
    """Numbers of elements on one rank of a pipeline: all, those of its widest layer, those of its
    largest parameter, and those of parameters that are too small to be divided.
    """

    all: Numbers
    widest_layer: Numbers
    largest: int
    undivided: int


class Engine(Protocol):
    """An engine, for one plan."""

    def unit(self, numbers: Numbers) -> Unit:
        """The buffers of a unit with these parameters, and the gradients that it leaves."""

    def accumulated(self, numbers: Numbers, states: States) -> Accumulated:
        """Gradients of a rank that are there before the last micro-batch's backward."""

    def buffers(self, stage: StageNumbers) -> int:
        """Bytes that stand for the whole step."""


class Unsharded:
    """Every rank has all parameters and all gradients: nothing is gathered, and a gradient stays
    where backward has made it.
    """

    def __init__(self, plan: PytorchPlan) -> None:
        self._plan, self._states = plan, plan.step.states
        in_backward = plan.step.optimizer.in_backward
        self._accumulates = plan.batch.num_microbatches > 1 and not in_backward
        """Whether gradients of several micro-batches are added up."""
        self._leaves_gradients = not (self._accumulates or in_backward)
        """Whether backward leaves gradients that were not there before: not where they are added to
        earlier ones, or stepped at once.
        """

    def unit(self, numbers: Numbers) -> Unit:
        """The gradients in their own type."""
        if not self._leaves_gradients:
            return Unit()
        return Unit(gradients=self._states.gradients * numbers.trained)

    def accumulated(self, numbers: Numbers, states: States) -> Accumulated:  # noqa: ARG002
        """All gradients, whole."""
        return Accumulated(whole=states.gradients) if self._accumulates else Accumulated()

    def buffers(self, stage: StageNumbers) -> int:  # noqa: ARG002
        """None."""
        return 0

"""What an engine asks for between the passes of a model's stretches."""

from collections.abc import Sequence
from typing import Protocol

from trainfit.estimator.frameworks.pytorch.requests.unit import UnitParameters
from trainfit.estimator.trace.recorder import HeldTensor


class EngineRequests(Protocol):
    """The buffers of one rank. A unit goes by its place among the units of a model."""

    def load(self, parameters: Sequence[UnitParameters]) -> None:
        """This rank's share of the units, the root's first."""

    def prepare(self, parameters: Sequence[UnitParameters]) -> None:
        """What is made once, before the first step."""

    @property
    def takes_each(self) -> bool:
        """Whether a gradient is gone as soon as it is made."""

    def begin(self, *, is_first: bool, is_last: bool) -> None:
        """A micro-batch begins: the first of a step, or one whose gradients are added to earlier
        ones; the last, or one behind which no optimizer steps.
        """

    def prefetch(self, place: int, parameters: UnitParameters) -> None:
        """A unit is the next one in backward."""

    def before_forward(self, place: int, parameters: UnitParameters) -> None:
        """A unit is whole from here on."""

    def after_forward(self, place: int) -> None:
        """A unit may go."""

    def end_forward(self) -> None:
        """The root's forward is over."""

    def before_backward(self, place: int, parameters: UnitParameters) -> None:
        """A unit is whole from here on."""

    def after_again(self, place: int, parameters: UnitParameters) -> None:
        """A layer has run forward again, and runs backward next."""

    def after_backward(
        self, place: int, parameters: UnitParameters, gradients: Sequence[HeldTensor]
    ) -> None:
        """A unit has run backward, and left these gradients."""

    def end_backward(self) -> None:
        """The backward is over."""

    def end_step(self) -> None:
        """Gradients are set to none."""

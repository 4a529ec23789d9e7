"""DistributedDataParallel: buckets beside the gradients, or in their place.

Every rank has all parameters. There is one bucket of all gradients until a backward has shown in
which order they come; behind the first step buckets of 25 MiB take its place. Sources:
torch/nn/parallel/distributed.py (_ddp_init_helper), torch/csrc/distributed/c10d/reducer.cpp
(rebuild_buckets, compute_bucket_assignment_by_size, mark_variable_ready_dense).
"""

from collections.abc import Iterable, Sequence

from trainfit.estimator.frameworks.pytorch.engines.ddp import are_views, has_buckets
from trainfit.estimator.frameworks.pytorch.requests.unit import UnitParameters
from trainfit.estimator.trace.recorder import HeldTensor, Recorder
from trainfit.resolve.pytorch.plan import PytorchPlan

MIB = 2**20
FIRST_BUCKET = MIB
BUCKET = 25 * MIB
"""Bytes behind which a bucket is closed."""


class DdpRequests:
    """What one rank holds beside the passes of its model."""

    def __init__(self, plan: PytorchPlan, recorder: Recorder) -> None:
        self._recorder = recorder
        self._has_buckets, self._width = has_buckets(plan), plan.step.states.gradients
        self._are_views, self._adds = are_views(plan), False
        self._gradients: list[HeldTensor] = []
        self._buckets: list[HeldTensor] = []
        self._rebuilt: list[int] = []
        """Bytes of the buckets that follow the first step."""

    def load(self, parameters: Sequence[UnitParameters]) -> None:
        """All parameters, and a bucket of all gradients."""
        for unit in parameters:
            for nbytes in (*unit.stored, *unit.undivided):
                self._recorder.make(nbytes)
        sizes = [self._width * count for unit in parameters for count in unit.stepped]
        if self._has_buckets and sizes:
            self._buckets = [self._recorder.make(sum(sizes))]
            self._rebuilt = list(_assigned(reversed(sizes)))

    def prepare(self, parameters: Sequence[UnitParameters]) -> None:
        """Nothing is made ahead."""

    @property
    def takes_each(self) -> bool:
        """Gradients are copied into buckets that they are views of, or added to earlier ones."""
        return self._are_views or self._adds

    def begin(self, *, is_first: bool, is_last: bool) -> None:  # noqa: ARG002
        self._adds = not is_first

    def prefetch(self, place: int, parameters: UnitParameters) -> None:
        """Nothing is gathered; likewise below."""

    def before_forward(self, place: int, parameters: UnitParameters) -> None:
        pass

    def after_forward(self, place: int) -> None:
        pass

    def end_forward(self) -> None:
        pass

    def before_backward(self, place: int, parameters: UnitParameters) -> None:
        pass

    def after_again(self, place: int, parameters: UnitParameters) -> None:
        pass

    def after_backward(
        self,
        place: int,  # noqa: ARG002
        parameters: UnitParameters,  # noqa: ARG002
        gradients: Sequence[HeldTensor],
    ) -> None:
        """Gradients stay, unless buckets or earlier ones have them: a tied head's waits for the
        embedding's.
        """
        if self.takes_each:
            self._recorder.release(*gradients)
        else:
            self._gradients += gradients

    def end_backward(self) -> None:
        pass

    def end_step(self) -> None:
        """Gradients go; the first time, buckets are made anew."""
        self._recorder.release(*self._gradients)
        self._gradients.clear()
        if self._rebuilt:
            self._recorder.release(*self._buckets)
            self._buckets = [self._recorder.make(nbytes) for nbytes in self._rebuilt]
            self._rebuilt = []


def _assigned(sizes: Iterable[int]) -> Iterable[int]:
    """Bytes of the buckets of gradients in the order in which backward makes them."""
    limit, filled = FIRST_BUCKET, 0
    for size in sizes:
        filled += size
        if filled >= limit:
            yield filled
            limit, filled = BUCKET, 0
    if filled:
        yield filled

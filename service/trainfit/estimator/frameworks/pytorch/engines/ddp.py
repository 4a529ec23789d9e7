"""DistributedDataParallel, which reduces gradients in buckets. Sources:
torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp.
"""

from trainfit.estimator.frameworks.pytorch.engines.engine import Stage, Unsharded
from trainfit.estimator.frameworks.pytorch.states import Numbers, States
from trainfit.estimator.frameworks.pytorch.units import Accumulated, Unit
from trainfit.resolve.pytorch.plan import PytorchPlan


def has_buckets(plan: PytorchPlan) -> bool:
    """One rank alone has none."""
    return plan.layout.dp * plan.layout.cp > 1


class Ddp(Unsharded):
    """Buckets as large as the gradients stand beside them, or are the gradients
    (gradient_as_bucket_view): then these are never gone.
    """

    def __init__(self, plan: PytorchPlan) -> None:
        super().__init__(plan)
        policy = plan.step.data_parallelism
        self._has_buckets = has_buckets(plan)
        reduces_each_time = policy.sync_each_micro_batch or not self._accumulates
        self._are_views = self._has_buckets and policy.gradient_as_bucket_view and reduces_each_time

    def unit(self, numbers: Numbers) -> Unit:
        """Gradients that are views of buckets are there already."""
        return Unit() if self._are_views else super().unit(numbers)

    def accumulated(self, numbers: Numbers, states: States) -> Accumulated:
        if self._are_views:
            return Accumulated(whole=states.gradients)
        return super().accumulated(numbers, states)

    def buffers(self, stage: Stage) -> int:
        """The buckets, where gradients are no views of them."""
        if not self._has_buckets or self._are_views:
            return 0
        return self._states.gradients * stage.all.trained

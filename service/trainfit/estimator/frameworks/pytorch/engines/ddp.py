"""DistributedDataParallel, which reduces gradients in buckets. Sources:
torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp.
"""

from trainfit.estimator.frameworks.pytorch.engines.engine import StageNumbers, Unsharded
from trainfit.estimator.frameworks.pytorch.states import Numbers, States
from trainfit.estimator.frameworks.pytorch.units import Accumulated, Unit
from trainfit.resolve.pytorch.plan import PytorchPlan


def has_buckets(plan: PytorchPlan) -> bool:
    """One rank alone has none."""
    return plan.layout.dp * plan.layout.cp > 1


def are_views(plan: PytorchPlan) -> bool:
    """Whether gradients are parts of buckets (gradient_as_bucket_view): not where they are added up
    between reductions.
    """
    policy, several = plan.step.data_parallelism, plan.batch.num_microbatches > 1
    waits = several and not (policy.sync_each_micro_batch or plan.step.optimizer.in_backward)
    return has_buckets(plan) and policy.gradient_as_bucket_view and not waits


class Ddp(Unsharded):
    """Buckets as large as the gradients stand beside them, or are the gradients
    (gradient_as_bucket_view): then these are never gone.
    """

    def __init__(self, plan: PytorchPlan) -> None:
        super().__init__(plan)
        self._has_buckets, self._are_views = has_buckets(plan), are_views(plan)

    def unit(self, numbers: Numbers) -> Unit:
        """Gradients that are views of buckets are there already."""
        return Unit() if self._are_views else super().unit(numbers)

    def accumulated(self, numbers: Numbers, states: States) -> Accumulated:
        if self._are_views:
            return Accumulated(whole=states.gradients)
        return super().accumulated(numbers, states)

    def buffers(self, stage: StageNumbers) -> int:
        """The buckets, where gradients are no views of them."""
        if not self._has_buckets or self._are_views:
            return 0
        return self._states.gradients * stage.all.trained

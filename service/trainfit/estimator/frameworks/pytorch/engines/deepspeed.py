"""DeepSpeed's ZeRO, which has buckets of a fixed size. Source: deepspeed/runtime/zero
(stage_1_and_2.py, stage3.py, parameter_offload.py).
"""

from trainfit.estimator.frameworks.pytorch.engines.engine import StageNumbers, Unsharded
from trainfit.estimator.frameworks.pytorch.states import Numbers, States, shard
from trainfit.estimator.frameworks.pytorch.units import Accumulated, Unit
from trainfit.resolve.pytorch.plan import PytorchPlan, ZeroBuffers


class ZeroOptimizer(Unsharded):
    """The first stage shards the optimizer's states. Gradients pass through buckets that are made
    for the first gradient of a backward and gone at its end.
    """

    def __init__(self, plan: PytorchPlan, zero: ZeroBuffers) -> None:
        super().__init__(plan)
        self._zero = zero
        has_buckets = zero.contiguous or zero.optimizer_on_host
        buckets = (2 if zero.overlapped else 1) if has_buckets else 0
        self._buckets = self._states.gathered * zero.reduced * buckets

    def unit(self, numbers: Numbers) -> Unit:
        buckets = self._buckets if numbers.trained else 0
        unit = super().unit(numbers)
        return unit._replace(reduce_scatter=buckets, reduce_scatter_kept=buckets)

    def buffers(self, stage: StageNumbers) -> int:
        """A buffer of the largest parameter, by way of which gradients go to the host
        (temp_grad_buffer_for_gpu_offload).
        """
        return self._states.gathered * stage.largest if self._zero.optimizer_on_host else 0


class ZeroGradients(ZeroOptimizer):
    """The second stage reduces each gradient to one rank, or to its host, after every
    micro-batch.
    """

    def unit(self, numbers: Numbers) -> Unit:
        unit = super().unit(numbers)
        if not self._leaves_gradients or self._zero.optimizer_on_host:
            return unit._replace(gradients=0)
        part = shard(numbers, self._plan).trained
        return unit._replace(gradients=self._states.gradients * part)

    def accumulated(self, numbers: Numbers, states: States) -> Accumulated:  # noqa: ARG002
        """The rank's share."""
        return Accumulated(sharded=states.gradients) if self._accumulates else Accumulated()


class ZeroParameters(Unsharded):
    """The third stage shards parameters too. Partitions of gradients have places of their own from
    the first step on (grad_partitions_flat_buffer).
    """

    def __init__(self, plan: PytorchPlan, zero: ZeroBuffers) -> None:
        super().__init__(plan)
        self._zero = zero

    def unit(self, numbers: Numbers) -> Unit:  # noqa: ARG002
        """Nothing beside what stands."""
        return Unit()

    def accumulated(self, numbers: Numbers, states: States) -> Accumulated:  # noqa: ARG002
        """The partitions."""
        return Accumulated(sharded=states.gradients)

    def buffers(self, stage: StageNumbers) -> int:
        """The contiguous bucket of gradients, and the parameters that are unsharded at once: what
        is used again within stage3_max_live_parameters is not let go of, and small ones never are.
        """
        zero = self._zero
        live = stage.undivided + stage.widest_layer.all + zero.prefetched
        unsharded = min(stage.all.all, max(zero.live, live))
        bucket = zero.reduced if zero.contiguous else 0
        return self._states.gathered * (unsharded + bucket)

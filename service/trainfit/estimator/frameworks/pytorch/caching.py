"""Memory that PyTorch's allocator keeps at the peak and cannot give to the tensors of that moment.

A block that was allocated on one stream is given out again on that stream only. FSDP2 gathers on
one stream and reduces on another: what these took at their highest stays theirs. On the stream
that computes, the narrow logits leave a hole before their fp32 gradients are made, which are twice
as large. Source: c10/cuda/CUDACachingAllocator.cpp (free blocks by stream),
torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py.
"""

from collections.abc import Sequence

from trainfit.estimator.frameworks.pytorch.states import States
from trainfit.estimator.frameworks.pytorch.step import Live
from trainfit.estimator.frameworks.pytorch.units import Unit
from trainfit.estimator.ledger import OperationKind
from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.operations.widths import FP32
from trainfit.resolve.pytorch.plan import PytorchPlan


def cached(
    live: Live, units: Sequence[Unit], states: States, sizes: PytorchLegend, plan: PytorchPlan
) -> int:
    """Bytes that are reserved and free, but of no use, at the moment of `live`."""
    return _on_other_streams(live, units, states, plan) + _beside_the_loss(live, sizes, plan)


def _on_other_streams(live: Live, units: Sequence[Unit], states: States, plan: PytorchPlan) -> int:
    """Two units are gathered at once at most, and sharded gradients are reduced to their places."""
    if plan.step.data_parallelism.engine not in ("fsdp1", "fsdp2"):
        return 0
    largest = max((unit.all_gather for unit in units), default=0)
    pool = max(largest, 2 * sorted([0, 0, *(unit.all_gather for unit in units)])[-2])
    reduced = states.gradients if plan.layout.sharding != "no_shard" else 0
    return max(0, pool - live.gathering) + max(0, reduced - live.gradients)


def _beside_the_loss(live: Live, sizes: PytorchLegend, plan: PytorchPlan) -> int:
    if (
        live.kind is not OperationKind.LOSS
        or plan.step.cross_entropy != "full"
        or sizes.bytes == FP32
    ):
        return 0
    n = plan.step.logits_kept * sizes.b or sizes.n
    return sizes.bytes * n * sizes.V // (sizes.t if plan.step.loss_parallel else 1)

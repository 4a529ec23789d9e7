"""What data-parallel ranks gather and reduce together: a unit, and the buffers that this takes.

FSDP shares out the parameters of a layer, or of the root, as one unit. DDP reduces in buckets.
DeepSpeed has buckets of a fixed size. Sources: torch/distributed/fsdp/_fully_shard
(_fsdp_collectives.py, _fsdp_param_group.py), torch/distributed/fsdp/_flat_param.py,
torch/nn/parallel/distributed.py, deepspeed/runtime/zero.
"""

from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.states import (
    Numbers,
    States,
    gathered,
    padded,
    shard,
)
from trainfit.resolve.plan import PytorchPlan


class Unit(NamedTuple):
    """Bytes of one unit on one GPU, in the order of a step.

    `weights` are the unsharded parameters while the unit runs, `all_gather` the buffer into which
    the unit that is next is gathered meanwhile, `all_gather_kept` what stays of it in forward until
    that unit is copied out. `reduce_scatter` is the input from which gradients are reduced while
    the unit before runs backward; `sharded_gradients` are left then, and `accumulated` is gone that
    earlier micro-batches had added up.
    """

    weights: int
    all_gather: int
    reduce_scatter: int
    sharded_gradients: int
    accumulated: int
    all_gather_kept: int = 0


NONE = Unit(0, 0, 0, 0, 0)


class Accumulated(NamedTuple):
    """Bytes of gradients that earlier micro-batches left: whole ones, or this rank's share."""

    whole: int
    sharded: int


def unit_of(numbers: Numbers, plan: PytorchPlan) -> Unit:
    """The buffers of a unit with these parameters.

    HSDP keeps what it reduces over replicas until the end where that is no gradient yet.
    """
    states, strategy = plan.step.states, plan.layout.sharding
    bucket = _passing_buckets(plan) if numbers.trained else 0
    stands = _adds_up(plan) or _are_in_buckets(plan) or _stand_in_partitions(plan)
    keeps = not (stands or plan.step.optimizer.in_backward)
    if strategy in ("no_shard", "optim"):
        return Unit(0, 0, bucket, states.gradients * numbers.trained * keeps, 0)
    part = shard(numbers, plan).trained
    if (zero := plan.step.data_parallelism.zero) is not None:
        stays = keeps and not zero.optimizer_on_host
        return Unit(0, 0, bucket, states.gradients * part * stays, 0)
    sharded_gradients = states.gradients * part * keeps
    if plan.layout.replicas > 1 and states.reduced != states.gradients:
        sharded_gradients += states.reduced * part
    numbers = padded(numbers, plan)
    whole, experts = gathered(numbers, plan), states.gathered * numbers.expert
    apart, alone = _experts_are_apart(numbers, plan)
    all_gather = whole - experts * alone
    narrower = plan.step.data_parallelism.engine == "fsdp2" or states.gathered != states.reduced
    reduce_scatter = states.reduced * (numbers.trained - numbers.expert * alone) * narrower
    added = 0 if _syncs(plan) else states.reduced * numbers.trained
    sharded_gradients += states.gradients * part * (added > 0)
    all_gather_kept = experts * (not alone) if apart else all_gather
    return Unit(whole, all_gather, reduce_scatter, sharded_gradients, added, all_gather_kept)


def _experts_are_apart(numbers: Numbers, plan: PytorchPlan) -> tuple[bool, bool]:
    """Whether experts are gathered and reduced behind the rest of the unit, among fewer ranks, and
    whether a rank is alone with them: then FSDP2 copies them without a buffer.
    """
    apart = plan.layout.ep > 1 and numbers.expert > 0
    return apart, apart and plan.layout.expert_optimizer_shards == 1


def accumulated(numbers: Numbers, states: States, plan: PytorchPlan) -> Accumulated:
    """FSDP keeps gradients of earlier micro-batches whole, in the type in which they are reduced,
    until the last one, unless it reduces after each. Gradients that are parts of DDP's buckets are
    never gone, nor are partitions of gradients in DeepSpeed's third stage.
    """
    if _stand_in_partitions(plan):
        return Accumulated(0, states.gradients)
    sharded = plan.layout.sharding in ("optim_grads", "optim_grads_params")
    if not sharded and (_adds_up(plan) or _are_in_buckets(plan)):
        return Accumulated(states.gradients, 0)
    if not _adds_up(plan):
        return Accumulated(0, 0)
    if _syncs(plan):
        return Accumulated(0, states.gradients)
    return Accumulated(plan.step.states.reduced * numbers.trained + whole_embedding(plan), 0)


def whole_embedding(plan: PytorchPlan) -> int:
    """Under tensor parallelism the embedding's gradient [V, h] is made whole and, where it is kept
    as it is, a rank's share stays a part of it.
    """
    states, tp = plan.step.states, plan.layout.tp
    if tp == 1 or not plan.layout.divides_embedding or states.reduced != states.gathered:
        return 0
    matrix = plan.vocabulary_rows * plan.model.hidden_size * states.gathered
    return matrix - matrix // tp


def _adds_up(plan: PytorchPlan) -> bool:
    return plan.batch.num_microbatches > 1 and not plan.step.optimizer.in_backward


def _syncs(plan: PytorchPlan) -> bool:
    """Whether gradients are reduced after every micro-batch, or there is only one."""
    policy = plan.step.data_parallelism
    return not _adds_up(plan) or policy.sync_each_micro_batch or policy.engine == "deepspeed"


def _are_in_buckets(plan: PytorchPlan) -> bool:
    policy = plan.step.data_parallelism
    return _has_buckets(plan) and policy.gradient_as_bucket_view and _syncs(plan)


def _stand_in_partitions(plan: PytorchPlan) -> bool:
    """Whether gradients have places of their own from the first step on (stage3.py:
    grad_partitions_flat_buffer).
    """
    third = plan.layout.sharding == "optim_grads_params"
    return third and plan.step.data_parallelism.engine == "deepspeed"


def _has_buckets(plan: PytorchPlan) -> bool:
    ranks = plan.layout.dp * plan.layout.cp
    return plan.step.data_parallelism.engine == "ddp" and ranks > 1


def ddp_buckets(numbers: Numbers, plan: PytorchPlan) -> int:
    """Buckets as large as the gradients, beside them unless those are views."""
    beside = _has_buckets(plan) and not _are_in_buckets(plan)
    return plan.step.states.gradients * numbers.trained * beside


def deepspeed_buffers(
    numbers: Numbers, largest_unit: Numbers, largest: int, persistent: int, plan: PytorchPlan
) -> int:
    """In stage 3, for the whole step: the bucket of gradients, and the parameters that are whole at
    once. What is used again within stage3_max_live_parameters is not let go of, and small
    parameters, of `persistent` elements, never are (parameter_offload.py). Below it, a buffer of
    the largest parameter, of `largest` elements, by way of which gradients go to the host
    (stage_1_and_2.py: temp_grad_buffer_for_gpu_offload).
    """
    zero, width = plan.step.data_parallelism.zero, plan.step.states.gathered
    if zero is None:
        return 0
    if plan.layout.sharding != "optim_grads_params":
        return width * largest * zero.optimizer_on_host
    elements = numbers.trained + numbers.frozen + numbers.frozen_matrices
    unit = largest_unit.trained + largest_unit.frozen + largest_unit.frozen_matrices
    live = min(elements, max(zero.live, persistent + unit + zero.prefetched))
    return width * (live + zero.contiguous * zero.reduced)


def _passing_buckets(plan: PytorchPlan) -> int:
    """Below stage 3: made for the first gradient of a backward and gone at its end."""
    third = plan.layout.sharding == "optim_grads_params"
    zero = plan.step.data_parallelism.zero
    if zero is None or third:
        return 0
    buckets = (2 if zero.overlapped else 1) * (zero.contiguous or zero.optimizer_on_host)
    return plan.step.states.gathered * buckets * zero.reduced

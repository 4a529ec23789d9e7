"""What data-parallel ranks gather and reduce together: a unit, and the buffers that this takes.

FSDP shares out the parameters of a layer, or of the root, as one unit. DDP reduces in buckets.
DeepSpeed has buckets of a fixed size. Sources: torch/distributed/fsdp/_fully_shard
(_fsdp_collectives.py, _fsdp_param_group.py), torch/distributed/fsdp/_flat_param.py,
torch/nn/parallel/distributed.py, deepspeed/runtime/zero.
"""

from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.states import Numbers, gathered, shard
from trainfit.resolve.plan import PytorchPlan
from trainfit.specs.framework import DeepSpeed, Transformers


class Unit(NamedTuple):
    """Bytes of one unit on one GPU, in the order of a step.

    `weights` are whole ones while the unit runs, `fetched` the buffer into which the unit that is
    next is gathered meanwhile, `reducing` the buffer from which gradients are reduced while the
    unit before it runs backward, `left` what is left of the gradients then.
    """

    weights: int
    fetched: int
    reducing: int
    left: int


NONE = Unit(0, 0, 0, 0)


def unit_of(numbers: Numbers, plan: PytorchPlan) -> Unit:
    """The buffers of a unit with these parameters."""
    states, strategy = plan.step.states, plan.layout.sharding
    engine = plan.step.data_parallelism.engine
    if strategy in ("no_shard", "optim"):
        return Unit(0, 0, 0, states.gathered * numbers.trained)
    part = shard(numbers, plan)
    left = states.gradients * part.trained
    if engine == "deepspeed":
        return Unit(0, 0, 0, left)
    whole = gathered(numbers, plan)
    narrower = states.gathered != states.reduced
    if engine == "fsdp1":
        return Unit(whole, whole, states.reduced * numbers.trained * narrower, left)
    return Unit(whole, whole, states.reduced * numbers.trained, left)


def ddp_buckets(numbers: Numbers, plan: PytorchPlan) -> int:
    """Buckets as large as the gradients, which lie beside them unless they are views."""
    policy = plan.step.data_parallelism
    if policy.engine != "ddp" or plan.layout.dp * plan.layout.cp == 1:
        return 0
    return plan.step.states.gathered * numbers.trained


def deepspeed_buffers(numbers: Numbers, largest_unit: Numbers, plan: PytorchPlan) -> int:
    """Buckets of gradients, and in stage 3 the parameters that are whole at once."""
    if plan.step.data_parallelism.engine != "deepspeed":
        return 0
    assert isinstance(plan.framework, Transformers)
    options: DeepSpeed = plan.framework.deepspeed
    width = plan.step.states.gathered
    third = plan.layout.sharding == "optim_grads_params"
    overlapped = third if options.overlap_comm is None else options.overlap_comm
    bucket = min(options.reduce_bucket_size, numbers.trained) * width
    buffers = bucket * (2 if overlapped and not third else 1)
    if not options.contiguous_gradients:
        buffers = 0
    if third:
        elements = numbers.trained + numbers.frozen + numbers.frozen_matrices
        unit = largest_unit.trained + largest_unit.frozen + largest_unit.frozen_matrices
        ahead = min(options.stage3_prefetch_bucket_size, elements)
        live = min(options.stage3_max_live_parameters, elements)
        buffers += width * min(max(live, unit), unit + ahead)
    return buffers

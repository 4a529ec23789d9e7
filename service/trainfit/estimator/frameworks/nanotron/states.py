"""Bytes of a rank's model states under nanotron, of its buffers, and of what its step borrows.

Symbols: estimator.legend; P parameters on one GPU. Sources: nanotron's
optim/gradient_accumulator.py (FP32GradientAccumulator), optim/zero.py, distributed.py
(all_gather_coalesced), parallel/utils.py (MemoryBuffer), trainer.py (_init_model).
"""

from typing import NamedTuple

from trainfit.estimator.legend import Legend
from trainfit.estimator.operations.widths import FP32
from trainfit.resolve.nanotron.plan import NanotronPlan
from trainfit.specs.blocks import Attention
from trainfit.specs.optimizers import OPTIMIZERS

BF16 = 2


class NanotronStates(NamedTuple):
    """Bytes for the whole step, and what the optimizer's step borrows. `flat` is a tensor of that
    which finds no room between segments of the passes, unless segments grow.
    """

    weights: int
    gradients: int
    optimizer: int
    step: int
    flat: int


def states_of(parameters: int, plan: NanotronPlan) -> NanotronStates:
    """Gradients are added up in one buffer of fp32 for all parameters, which ZeRO does not share
    out; or in bf16 where the weights have them. Master weights in fp32 go with the former. Moments
    are as wide as what is stepped.
    """
    step = plan.step
    shard = -(-parameters // plan.layout.optimizer_shards)
    width = FP32 if step.accumulates_in_fp32 else BF16
    adds_up = step.accumulates_in_fp32 or plan.batch.num_microbatches > 1
    moments = OPTIMIZERS["adam"].moments if step.optimizer == "adam" else 0
    master = FP32 if step.accumulates_in_fp32 else 0
    gathered = BF16 * parameters if plan.shares_states else 0
    return NanotronStates(
        weights=BF16 * parameters,
        gradients=width * parameters if adds_up else 0,
        optimizer=(master + moments * width) * shard,
        step=max(_gathering(shard, gathered, plan), _foreach(shard, width, plan)),
        flat=0 if plan.framework.expandable_segments else gathered,
    )


def _gathering(shard: int, gathered: int, plan: NanotronPlan) -> int:
    """ZeRO gathers all weights at once: a flat copy of a rank's own, one of every rank's, and the
    tensor that NCCL writes before it is copied to these (ProcessGroupNCCL::allgather).
    """
    return BF16 * shard + 2 * gathered if plan.shares_states else 0


def _foreach(shard: int, width: int, plan: NanotronPlan) -> int:
    """The denominator of all parameters at once."""
    if plan.framework.torch_adam_is_fused or plan.step.optimizer != "adam":
        return 0
    made = OPTIMIZERS["adam"].temporaries["foreach"]
    return made.tensors * width * shard


def ddp_buckets(parameters: int, plan: NanotronPlan) -> int:
    """DDP's buckets, in bf16, stand beside the gradients (gradient_as_bucket_view is off)."""
    return BF16 * parameters if plan.reduces_in_buckets else 0


def memory_buffer(sizes: Legend, plan: NanotronPlan) -> int:
    """Inputs of column-parallel linears [n, h] gathered in one buffer, and where communication is
    asynchronous the gradients of row-parallel ones [n, h] in another. Both stay.
    """
    framework = plan.framework
    count = framework.tp_recompute_allgather + framework.tp_linear_async_communication
    return count * sizes.bytes * sizes.n_gathered * sizes.h


def rotary_tables(layers: int, sizes: Legend, plan: NanotronPlan) -> int:
    """cos and sin [s, d / 2], which each layer keeps for itself."""
    widths = [block.head_dim for block in plan.model.blocks if isinstance(block, Attention)]
    return layers * sizes.bytes * sizes.s * max(widths)

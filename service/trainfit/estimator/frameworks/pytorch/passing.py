"""Gradients that are gone as soon as they are made, and what their operations borrow then."""

from fractions import Fraction
from math import ceil

from trainfit.estimator.segment import Sums
from trainfit.resolve.pytorch.plan import PytorchPlan


def adds_each(plan: PytorchPlan) -> bool:
    """Whether each gradient is added to that of an earlier micro-batch as soon as it is made, as
    autograd does under fully_shard where gradients are reduced in the type in which they are made.
    Source: torch/distributed/fsdp/_fully_shard/_fsdp_param.py.
    """
    policy, states = plan.step.data_parallelism, plan.step.states
    waits = plan.batch.num_microbatches > 1 and not policy.sync_each_micro_batch
    return policy.engine == "fsdp2" and waits and states.reduced == states.gathered


def gradients_pass(plan: PytorchPlan) -> bool:
    """Whether new gradients are gone as soon as they are made: stepped by, copied into DDP's
    buckets, or added to those of earlier micro-batches. FSDP does the last with those of a whole
    unit, unless `adds_each` says otherwise.
    A tied matrix has that of the head wait for that of the embedding.
    """
    if plan.layout.sharding in ("optim_grads", "optim_grads_params"):
        return adds_each(plan)
    policy = plan.step.data_parallelism
    in_buckets = policy.gradient_as_bucket_view and plan.layout.dp * plan.layout.cp > 1
    return plan.step.optimizer.in_backward or plan.batch.num_microbatches > 1 or in_buckets


def passing(sums: Sums, stepped: Fraction | int) -> Sums:
    """An operation whose weight gradient is gone when its backward is over. A step in backward
    borrows a share of it besides.
    """
    borrowed = sums.gradient + ceil(sums.gradient * stepped)
    return sums._replace(backward=sums.backward + borrowed, gradient=0)

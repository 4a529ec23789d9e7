"""FullyShardedDataParallel and fully_shard, which gather a unit's parameters before it runs and
reduce-scatter its gradients behind it. Sources: torch/distributed/fsdp/_fully_shard
(_fsdp_collectives.py, _fsdp_param_group.py), torch/distributed/fsdp/_flat_param.py.
"""

from trainfit.estimator.frameworks.pytorch.engines.engine import Unsharded
from trainfit.estimator.frameworks.pytorch.states import (
    Numbers,
    States,
    gathered,
    padded,
    shard,
    stored_share,
)
from trainfit.estimator.frameworks.pytorch.units import (
    Accumulated,
    Unit,
    whole_embedding_gradient,
)
from trainfit.resolve.pytorch.plan import PytorchPlan

SHARDS_PARAMETERS = ("optim_grads", "optim_grads_params")
"""Strategies under which FSDP gathers units."""


class Fsdp(Unsharded):
    """Each rank has a share of parameters and gradients. Gradients of earlier micro-batches wait
    unsharded, in the type in which they are reduced, unless they are reduced after each.
    """

    def __init__(self, plan: PytorchPlan) -> None:
        super().__init__(plan)
        each_time = plan.step.data_parallelism.sync_each_micro_batch
        self._on_host = plan.step.data_parallelism.on_host
        """A rank's share of a unit then comes to the GPU to be gathered."""
        self._accumulates_unsharded = self._accumulates and not each_time

    def unit(self, numbers: Numbers) -> Unit:
        """What is gathered and reduced, with the padding that makes shares equal. With expert
        parallelism experts are gathered and reduced behind the rest of the unit, among fewer ranks;
        a rank that is alone with them copies them without a buffer.
        """
        part, numbers = shard(numbers, self._plan).trained, padded(numbers, self._plan)
        unsharded, layout = gathered(numbers, self._plan), self._plan.layout
        apart = layout.ep > 1 and numbers.expert > 0
        copied = numbers.expert if apart and layout.expert_optimizer_shards == 1 else 0
        all_gather = unsharded - self._states.gathered * copied
        behind = self._states.gathered * (numbers.expert - copied)
        reduced = self._states.reduced * (numbers.trained - copied)
        share = stored_share(numbers, self._plan) if self._on_host else 0
        return Unit(
            weights=unsharded,
            all_gather=all_gather + share,
            reduce_scatter=reduced + self._leaving(part),
            gradients=self._sharded_gradients(part, numbers),
            accumulated=self._unsharded_gradients(numbers),
            all_gather_kept=behind if apart else all_gather,
            reduce_scatter_kept=reduced,
        )

    def accumulated(self, numbers: Numbers, states: States) -> Accumulated:
        if self._accumulates_unsharded:
            embedding = whole_embedding_gradient(self._plan)
            return Accumulated(whole=self._unsharded_gradients(numbers) + embedding)
        return Accumulated(sharded=states.gradients) if self._accumulates else Accumulated()

    def _leaving(self, part: int) -> int:
        """The share of reduced gradients that is copied to the host."""
        return self._states.reduced * part if self._on_host else 0

    def _unsharded_gradients(self, numbers: Numbers) -> int:
        """Gradients of a unit that earlier micro-batches have added up."""
        return self._states.reduced * numbers.trained if self._accumulates_unsharded else 0

    def _sharded_gradients(self, part: int, numbers: Numbers) -> int:
        """The rank's share of gradients when a unit's reduce-scatter is over. HSDP keeps what it
        reduces over replicas until the end where that is no gradient yet.
        """
        states, size = self._states, 0
        if self._on_host:
            return 0
        if self._leaves_gradients or self._unsharded_gradients(numbers) > 0:
            size += states.gradients * part
        if self._plan.layout.replicas > 1 and states.reduced != states.gradients:
            size += states.reduced * part
        return size


def has_frozen_units(plan: PytorchPlan) -> bool:
    """Whether a layer's unit is frozen: PEFT has FSDP1, whose flat parameters are trained as a
    whole or not at all, make a unit of each adapter within it. Sources: peft's utils/other.py
    (fsdp_auto_wrap_policy), transformers' trainer.py (_fsdp_qlora_plugin_updates).
    """
    adapters, shards = plan.step.adapters, plan.layout.sharding in SHARDS_PARAMETERS
    low_rank = adapters is not None and adapters.virtual is None
    return plan.step.data_parallelism.engine == "fsdp1" and shards and low_rank


def keeps_inputs(plan: PytorchPlan) -> bool:
    """Whether the inputs of frozen units live to the end of a backward, and so do their gradients.
    FSDP1 waits for these with a hook on each input, which reentrant checkpointing has detached: the
    hook holds its node, and the node the hook, until the last callback of the backward. Inputs that
    FSDP casts are copies without a hook's cycle. Sources: torch/distributed/fsdp/_runtime_utils.py
    (_register_post_backward_reshard_only_hooks), torch/autograd/graph.py
    (register_multi_grad_hook), torch/utils/checkpoint.py (CheckpointFunction).
    """
    step = plan.step
    reentrant = step.checkpointing.kind == "layers" and step.checkpointing.reentrant
    return has_frozen_units(plan) and reentrant and step.residual_bytes == step.activation_bytes


def prefetches_backward(plan: PytorchPlan) -> bool:
    """Whether the next unit is gathered while one runs backward. FSDP1 gathers an adapter where the
    unit of a layer is frozen, and nothing where layers run again in a backward of their own: that
    they have one it does not know before (_runtime_utils.py: _needs_pre_backward_unshard).
    """
    step = plan.step
    reentrant = step.checkpointing.kind == "layers" and step.checkpointing.reentrant
    return not (has_frozen_units(plan) or (step.data_parallelism.engine == "fsdp1" and reentrant))


class Fsdp1(Fsdp):
    """A unit is one flat parameter, gathered as what a forward reads. Its gradients are joined into
    a flat one before it is let go of; where they are reduced in another type a copy is made behind
    that. Who computes need not wait until they are reduced.
    """

    def unit(self, numbers: Numbers) -> Unit:
        unit = super().unit(numbers)
        trained, states = numbers.trained, self._states
        joined = states.gathered * trained + unit.weights
        copied, share = 0, shard(numbers, self._plan).trained
        if states.gathered != states.reduced:
            copied = states.reduced * (trained + share) + states.gradients * share
        return unit._replace(
            all_gather_kept=0,
            reduce_scatter=max(joined, copied) + self._leaving(share) if trained else 0,
            reduce_scatter_kept=0,
            copied=False,
            joins=True,
        )


class Fsdp2(Fsdp):
    """A unit is a group of DTensors, copied into one buffer to be reduced."""

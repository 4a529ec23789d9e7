"""Bytes of a stage's model states on one GPU under Megatron.

Symbols: estimator.legend. Weights and main gradients stay whole on every data-parallel rank,
master weights and moments are sharded over dp c (dense) or the expert-data-parallel ranks.
Source: param_and_grad_buffer.py, distrib_optimizer.py.
"""

from math import ceil, lcm
from typing import NamedTuple

from trainfit.estimator.local_parameters import Local
from trainfit.resolve.megatron.plan import BytesPerParameter as BytesPerParameter
from trainfit.resolve.megatron.plan import MegatronPlan, MuonStep
from trainfit.specs.framework import Megatron
from trainfit.specs.parallelism import ShardingStrategy


class StateSharding(NamedTuple):
    """What states take for each parameter, and the ranks that share them out."""

    each: BytesPerParameter
    offload_ratio: float
    strategy: ShardingStrategy
    deals_whole: bool
    shards: int
    expert_shards: int
    framework: Megatron
    muon: MuonStep | None
    has_copy: bool
    """Whether each rank has the weights of a second model, too."""

    @property
    def lays_whole(self) -> bool:
        """Whether the buffers of Muon's matrices are laid out so that the shares of ranks cut none.
        Source: layer_wise_optimizer.py (compute_full_param_layout).
        """
        return self.muon is not None and self.strategy == "optim" and not self.deals_whole


def state_sharding(plan: MegatronPlan) -> StateSharding:
    """All of a plan, besides its parameters, that the bytes of their states rest on."""
    layout, step = plan.layout, plan.step
    return StateSharding(
        each=step.states,
        offload_ratio=step.optimizer_offload_ratio,
        strategy=layout.sharding,
        deals_whole=deals_whole(plan),
        shards=layout.optimizer_shards,
        expert_shards=layout.expert_optimizer_shards,
        framework=plan.framework,
        muon=plan.step.muon,
        has_copy=plan.step.has_copy,
    )


def deals_whole(plan: MegatronPlan) -> bool:
    """Whether ranks are dealt whole parameters, in the order of their sizes and back, as Muon's are
    without a layout of their buffers. Source: layer_wise_optimizer.py (_shard_params_ping_pong).
    """
    laid_out = plan.framework.use_layer_wise_param_layout
    return is_muon(plan.step.states) and not laid_out and plan.layout.sharding == "optim"


def is_muon(states: BytesPerParameter) -> bool:
    """Whether matrices have other moments than the rest."""
    return states.moments != states.matrix_moments


class StateBytes(NamedTuple):
    """Bytes of a stage's model states on one GPU, those of them that the first optimizer step
    makes, and what a step borrows.
    """

    weights: int
    gradients: int
    optimizer: int
    moments: int
    step: int


def state_bytes(local: Local, sharding: StateSharding, embedding: int = 0) -> StateBytes:
    """States of one GPU: the largest shard where the parameters do not divide evenly. Where whole
    parameters are dealt out, it has the `embedding`, and its part of the rest.

    Muon keeps one moment of each matrix and Adam's two of the rest. Weights that linears read in
    fp8 are kept in fp8 as well, or, gathered in fp8, only so, unless their layer is wide. Offloaded
    optimizer states lie in host memory.
    """
    states, strategy = sharding.each, sharding.strategy
    sharded = share_of(local, sharding, embedding)
    gradients = sharded if holds_units_whole(sharding) else local
    weights = sharded if strategy == "optim_grads_params" else local
    parameters = sharded.dense + sharded.expert
    matrices = sharded.linear + sharded.router + sharded.expert
    moments = states.matrix_moments * matrices + states.moments * (parameters - matrices)
    master = states.master * parameters + states.linear_master * _narrow(sharded)
    on_device = 1 - sharding.offload_ratio
    return StateBytes(
        weights=frozen_bytes(weights, sharding),
        gradients=states.gradients * (gradients.dense + gradients.expert),
        optimizer=round((master + moments) * on_device),
        moments=round((moments + states.holds_master * master) * on_device),
        step=states.step * parameters,
    )


def frozen_bytes(local: Local, sharding: StateSharding) -> int:
    """Weights that are not trained: they have no gradients, no states and no buffer."""
    states = sharding.each
    return states.weights * (local.dense + local.expert) + ceil(
        states.linear_weights * _narrow(local)
    )


def _narrow(local: Local) -> int:
    """Parameters of the matrices that linears read in fp8 or fp4, if they read any so."""
    return local.linear + local.expert - local.wide_linear - local.wide_expert


def share_of(local: Local, sharding: StateSharding, embedding: int) -> Local:
    """The largest share of one rank: with the embedding, if whole parameters are dealt out."""
    whole = embedding * sharding.deals_whole
    rest = _sharded(local._replace(dense=local.dense - whole), sharding)
    return rest._replace(dense=rest.dense + whole)


def _sharded(local: Local, sharding: StateSharding) -> Local:
    """The share of one rank of an optimizer's group."""
    dense, expert = sharding.shards, sharding.expert_shards
    return Local(
        local.whole,
        -(-local.dense // dense),
        -(-local.expert // expert),
        -(-local.router // dense),
        -(-local.norm // dense),
        -(-local.linear // dense),
        -(-local.wide_linear // dense),
        -(-local.wide_expert // expert),
    )


def gathered_bytes(local: Local, embedding: int, sharding: StateSharding) -> int:
    """What is borrowed to gather whole parameters of the ranks that they were dealt to, each of
    which joins its own first.
    """
    if not sharding.deals_whole:
        return 0
    own = share_of(local, sharding, embedding)
    dense = (local.dense + own.dense) * (sharding.shards > 1)
    expert = (local.expert + own.expert) * (sharding.expert_shards > 1)
    return sharding.each.weights * max(dense, expert)


BUCKET_PARAMETERS = 40_000_000
BUCKET_PARAMETERS_PER_RANK = 1_000_000


def bucket_padding(local: Local, sharding: StateSharding) -> int:
    """Bytes that the ends of gradient buckets are padded by: half a multiple of lcm(ranks, 128)
    each, or of 2^16 times that, where optimizer states are sharded and parameters cut for it.

    Source: distributed_data_parallel.py (bucket_size), optimizer/param_layout.py.
    """
    if sharding.strategy == "no_shard" or sharding.deals_whole:
        return 0
    elements, framework = 0, sharding.framework
    for parameters, ranks in (
        (local.dense, sharding.shards),
        (local.expert, sharding.expert_shards),
    ):
        multiple = lcm(ranks, 2**16 if framework.pad_buckets_for_high_nccl_busbw else 128)
        size = max(BUCKET_PARAMETERS, BUCKET_PARAMETERS_PER_RANK * ranks)
        buckets = (
            -(-parameters // size) if sharding.framework.overlap_grad_reduce else parameters > 0
        )
        elements += buckets * multiple // 2
    return elements * (sharding.each.weights + sharding.each.gradients)


def holds_units_whole(sharding: StateSharding) -> bool:
    """Whether weights or gradients are shared out, so that a unit is whole for a while alone."""
    return sharding.strategy in ("optim_grads", "optim_grads_params")

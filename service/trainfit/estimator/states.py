"""Parameters of a chunk on one GPU, and the bytes of their states.

Symbols: estimator.legend. Megatron divides a dense parameter over t and an expert one over e x;
weights and main gradients stay whole on every data-parallel rank, master weights and moments are
sharded over dp c (dense) or the expert-data-parallel ranks. Source: param_and_grad_buffer.py,
distrib_optimizer.py.
"""

from collections.abc import Iterable
from math import lcm
from operator import add
from typing import NamedTuple

from trainfit.estimator.blocks import norm, opaque
from trainfit.estimator.blocks.embedding import weights as embedding
from trainfit.estimator.blocks.head import weights as head
from trainfit.estimator.blocks.layer import weights_by_kind
from trainfit.estimator.blocks.mtp import weights as mtp
from trainfit.estimator.ledger import Split, Weight
from trainfit.estimator.placement import Content, Placement
from trainfit.estimator.results import Chunk
from trainfit.resolve.plan import Plan
from trainfit.specs.blocks import Bucket

LINEAR_BUCKETS = ("attention", "linear_attention", "dense_mlp", "shared_experts", "mtp")


class Local(NamedTuple):
    """Parameters of a stretch of a model: over all ranks, and on one GPU by kind.

    `linear` are the dense ones that stand in matrices of linear layers.
    """

    whole: int = 0
    dense: int = 0
    expert: int = 0
    router: int = 0
    norm: int = 0
    linear: int = 0

    def __add__(self, other: "Local") -> "Local":  # type: ignore[override]
        return Local(*map(add, self, other))

    def times(self, count: int) -> "Local":
        return Local(*[count * each for each in self])


class ChunkParameters(NamedTuple):
    """Parameters of one chunk by where they stand."""

    all: Local
    embedding: int
    output_layer: int
    mtp: int


class ParameterTable:
    """Local parameters of every stretch of a model, each counted once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        spec = plan.model
        self.kinds = weights_by_kind(spec)
        self._kinds = [self.local(weights) for weights in self.kinds]
        self._embedding = self.local(embedding.weights(spec.embedding, plan.vocabulary_rows))
        self._final_norms = self.local(norm.weights(each, "final") for each in spec.final_norms)
        self._extras = self.local(
            weight for extra in spec.extras for weight in opaque.weights(extra)
        ) + self.local(opaque.towers(spec))
        self._mtp = Local()
        if spec.mtp is not None:
            own = self.local(mtp.weights(spec.mtp, spec.hidden_size))
            self._mtp = own + self._kinds[spec.mtp.layer_kind]

    def chunk(self, content: Content) -> ChunkParameters:
        """Parameters of a chunk, those of a stretch once for each time that it stands there."""
        plan = self._plan
        total = Local()
        for kind in set(content.kinds):
            total += self._kinds[kind].times(content.kinds.count(kind))
        embedded = outputs = mtp_parameters = 0
        if content.embedding_weights:
            total += self._embedding
            embedded = self._embedding.dense
        if content.embedding:
            total += self._extras
        if content.output_layer:
            weights = head.weights(
                plan.model.output_layer,
                plan.vocabulary_rows,
                copy_of_embedding=content.head_copy,
            )
            output = self.local(weights)
            total += output
            outputs = output.dense
        if content.final_norm:
            total += self._final_norms
        if content.mtp_layers:
            depths = self._mtp.times(content.mtp_layers)
            total += depths
            mtp_parameters = depths.dense + depths.expert
        return ChunkParameters(total, embedded, outputs, mtp_parameters)

    def units(self, content: Content) -> list[Local]:
        """What is gathered as one: a layer, the embedding, the head."""
        units = [self._kinds[kind] for kind in set(content.kinds)]
        if content.embedding_weights or content.output_layer:
            units.append(self._embedding)
        return [*units, self._mtp] if content.mtp_layers else units

    def local(self, weights: Iterable[Weight]) -> Local:
        """Parameters of these weights, over all ranks and on one GPU."""
        layout = self._plan.layout
        whole = dense = expert = linear = 0
        buckets: dict[Bucket, int] = {"router": 0, "norm": 0}
        for weight in weights:
            whole += weight.numel
            if weight.split is Split.EXPERT:
                expert += weight.numel // (layout.ep * layout.etp)
                continue
            here = weight.numel // layout.tp if weight.split is Split.TENSOR else weight.numel
            dense += here
            if weight.bucket in buckets:
                buckets[weight.bucket] += here
            elif weight.bucket in LINEAR_BUCKETS and not weight.name.endswith("bias"):
                linear += here
        return Local(whole, dense, expert, buckets["router"], buckets["norm"], linear)


def chunk_result(placement: Placement, parameters: ChunkParameters) -> Chunk:
    """The chunk as an estimate shows it."""
    local, content = parameters.all, placement.content
    return Chunk(
        vpp_rank=placement.vpp_rank,
        layers=list(placement.layers),
        embedding=content.embedding,
        output_layer=content.output_layer,
        mtp_layers=content.mtp_layers,
        parameters=local.dense + local.expert,
        expert_parameters=local.expert,
        router_parameters=local.router,
        norm_parameters=local.norm,
        embedding_parameters=parameters.embedding,
        output_layer_parameters=parameters.output_layer,
        mtp_parameters=parameters.mtp,
    )


class StateBytes(NamedTuple):
    """Bytes of a stage's model states on one GPU, and what its optimizer step borrows."""

    weights: int
    gradients: int
    optimizer: int
    step: int


def state_bytes(local: Local, plan: Plan) -> StateBytes:
    """States of one GPU: the largest shard where the parameters do not divide evenly.

    Muon keeps one moment of each matrix and Adam's two of the rest. Weights that linears read in
    fp8 are kept in fp8 as well, or, gathered in fp8, only so. Offloaded optimizer states lie in
    host memory.
    """
    states, sharding = plan.step.states, plan.layout.sharding
    sharded = _sharded(local, plan)
    gradients = sharded if sharding in ("optim_grads", "optim_grads_params") else local
    weights = sharded if sharding == "optim_grads_params" else local
    parameters = sharded.dense + sharded.expert
    matrices = sharded.linear + sharded.router + sharded.expert
    optimizer = states.master * parameters + states.matrix_moments * matrices
    optimizer += states.moments * (parameters - matrices)
    return StateBytes(
        weights=states.weights * (weights.dense + weights.expert)
        + states.linear_weights * (weights.linear + weights.expert),
        gradients=states.gradients * (gradients.dense + gradients.expert),
        optimizer=round(optimizer * (1 - plan.step.optimizer_offload_ratio)),
        step=states.step * parameters,
    )


def _sharded(local: Local, plan: Plan) -> Local:
    """The share of one rank of an optimizer's group."""
    dense, expert = plan.layout.optimizer_shards, plan.layout.expert_optimizer_shards
    return Local(
        local.whole,
        -(-local.dense // dense),
        -(-local.expert // expert),
        -(-local.router // dense),
        -(-local.norm // dense),
        -(-local.linear // dense),
    )


BUCKET_PARAMETERS = 40_000_000
BUCKET_PARAMETERS_PER_RANK = 1_000_000


def bucket_padding(local: Local, plan: Plan) -> int:
    """Bytes that the ends of gradient buckets are padded by: half a multiple of lcm(ranks, 128)
    each, or of 2^16 times that, where optimizer states are sharded.

    Source: distributed_data_parallel.py (bucket_size), optimizer/param_layout.py.
    """
    if plan.layout.sharding == "no_shard":
        return 0
    elements = 0
    for parameters, ranks in (
        (local.dense, plan.layout.optimizer_shards),
        (local.expert, plan.layout.expert_optimizer_shards),
    ):
        multiple = lcm(ranks, 2**16 if plan.framework.pad_buckets_for_high_nccl_busbw else 128)
        size = max(BUCKET_PARAMETERS, BUCKET_PARAMETERS_PER_RANK * ranks)
        buckets = -(-parameters // size) if plan.framework.overlap_grad_reduce else parameters > 0
        elements += buckets * multiple // 2
    return elements * (plan.step.states.weights + plan.step.states.gradients)


def unsharded_units(local: list[Local], plan: Plan) -> int:
    """Bytes of the units that Megatron-FSDP holds whole for a while, out of those of a stage: the
    weights of the one that runs and of the one fetched ahead, and the gradients of one.
    Source: distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py.
    """
    states, sharding = plan.step.states, plan.layout.sharding
    largest = max((unit.dense + unit.expert for unit in local), default=0)
    weights = 2 * states.weights if sharding == "optim_grads_params" else 0
    gradients = states.gradients if sharding in ("optim_grads", "optim_grads_params") else 0
    return (weights + gradients) * largest

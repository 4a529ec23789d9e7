"""The Plan: a job with nothing left open. The estimator sees only this."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from trainfit.specs.architecture import ModelSpec
from trainfit.specs.framework import Framework, Megatron, Torchtitan, Transformers
from trainfit.specs.optimizers import Implementation, OptimizerName
from trainfit.specs.parallelism import PipelineSchedule, ShardingStrategy
from trainfit.specs.pipeline_layout import VirtualStage

OFFLOADED = "offload:"
"""What stands before the name of a module whose tensors are offloaded, not recomputed."""

Origin = Literal["user", "config", "framework", "derived"]


@dataclass(frozen=True, slots=True)
class Default:
    """A value that the caller did not give, and where it comes from."""

    pointer: str
    value: Any
    origin: Origin
    why: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model's dimensions come from. `revision` is a commit of the Hub; `stale` that the
    branch or tag that was asked for was not confirmed to name it still.
    """

    name: str | None
    revision: str | None
    source: Literal["hub", "bundled", "request", "spec"]
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages of a model, and the order in which they run. `virtual_stages` are in the order in
    which layers run.
    """

    pp: int
    vpp: int
    schedule: PipelineSchedule
    virtual_stages: tuple[VirtualStage, ...]
    microbatch_group_size: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of the parallel groups. Dense states are sharded over `optimizer_shards` ranks, expert
    states over `expert_optimizer_shards`, in each of `replicas` groups. Keys and values go round
    rings of `cp_ring` context-parallel ranks.
    """

    num_gpus: int
    pipeline: Pipeline
    tp: int
    cp: int
    ep: int
    etp: int
    dp: int
    expert_dp: int
    sequence_parallel: bool
    divides_embedding: bool
    """Whether tensor-parallel ranks share the vocabulary of the embedding, and of a tied head."""
    cp_comm_type: Literal["p2p", "all_gather", "a2a", "a2a+p2p"]
    cp_ring: int
    sharding: ShardingStrategy
    optimizer_shards: int
    expert_optimizer_shards: int
    replicas: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One step: micro-batches of `micro_batch_size` samples of `seq_length` tokens."""

    micro_batch_size: int
    num_microbatches: int
    seq_length: int


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes per parameter of weights, main gradients, master weights and optimizer moments.

    `linear_weights` are what matrices of linears take on top of `weights` (less than nothing
    where they are kept in fp8 only), `matrix_moments` the moments of matrices, `step` what the
    optimizer step borrows for each parameter of a shard.
    """

    weights: int
    linear_weights: Fraction
    gradients: int
    master: int
    moments: int
    matrix_moments: int
    step: int


@dataclass(frozen=True, slots=True)
class RecomputePolicy:
    """What is dropped. `full` layers keep their input only, in groups of `num_layers` (uniform)
    or for the first `num_layers` of each chunk (block); `modules` are selective.
    """

    full: Literal["none", "uniform", "block"]
    num_layers: int
    modules: frozenset[str]
    offloaded: frozenset[str]
    distribute_saved_activations: bool

    @property
    def dropped(self) -> frozenset[str]:
        """Names under which a tensor may be told to leave: recomputed or offloaded modules."""
        return self.modules | {OFFLOADED + module for module in self.offloaded}


@dataclass(frozen=True, slots=True)
class Step:
    """How the arithmetic of one step is done."""

    activation_bytes: int
    linear_input_bytes: Fraction
    """Bytes of an element that a linear keeps of its input: less than an activation's in fp8."""
    states: StateBytes
    optimizer_offload_ratio: float
    recompute: RecomputePolicy
    attention_backend: Literal["flash", "fused", "unfused"]
    attention_dropout: bool
    hidden_dropout: bool
    cross_entropy: Literal["unfused", "native_fused", "te_fused"]


@dataclass(frozen=True, slots=True)
class Routing:
    """How tokens reach the experts, and how many rows that makes."""

    dispatcher: Literal["alltoall", "allgather", "flex"]
    grouped_gemm: bool
    permute_fusion: bool

    capacity_factor: float
    pad_to_capacity: bool
    imbalance_factor: float
    probability_bytes: int
    shared_expert_overlap: bool


@dataclass(frozen=True, slots=True)
class TargetGpu:
    """The GPU, as far as memory goes. Zero bytes: none was named."""

    name: str
    memory_bytes: int
    compute_capability: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything an estimate depends on, whichever framework runs the step. Plans are equal whose
    figures are: where a model comes from and what was defaulted make no difference.
    """

    model: ModelSpec
    source: Source = field(compare=False)
    vocabulary_rows: int
    mtp_layers: int
    layout: Layout
    batch: Batch
    framework: Framework
    gpu: TargetGpu
    defaults: tuple[Default, ...] = field(compare=False)
    remarks: tuple[str, ...] = field(default=(), compare=False)
    """What the model's config or the job says that the figures do not follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronPlan(Plan):
    """A plan for Megatron-LM or Megatron-Bridge."""

    framework: Megatron
    step: Step
    routing: Routing


@dataclass(frozen=True, slots=True)
class VirtualTokens:
    """Trained tokens before every sample: as embeddings, which an encoder of a width and a number
    of layers may make, or as keys and values of every layer. `width` are the features of an
    embedding, or of the keys of a layer.
    """

    count: int
    kind: Literal["embeddings", "mlp", "lstm", "keys_and_values", "projected_keys_and_values"]
    width: int
    encoder_width: int
    encoder_layers: int

    @property
    def in_attention(self) -> bool:
        """Whether they are keys and values, and no tokens anywhere else."""
        return self.kind in ("keys_and_values", "projected_keys_and_values")


@dataclass(frozen=True, slots=True)
class Adapters:
    """What is trained beside frozen weights: low-rank adapters of the linears that `targets` names
    (None: of all but the head), or `virtual` tokens before every sample.

    Their elements take `element_bytes` in storage and `computed_bytes` in a forward; an element of
    a frozen matrix takes `matrix_bytes` in storage, of which `scale_bytes` are its quantisation's.
    `saved` are modules that are trained whole.
    """

    rank: int
    dropout: bool
    targets: frozenset[str] | None
    element_bytes: int
    computed_bytes: int
    matrix_bytes: Fraction
    scale_bytes: Fraction
    saved: frozenset[str]
    base_dtype: str | None
    """How what is not quantised of the base is stored, where a forward narrows what it reads."""
    virtual: VirtualTokens | None


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """Which layers run again in backward: none; one in `every` whole; or, of one in `every`, all
    operations but attention and every second matrix product. Those that are `frozen` may be left
    out. A `reentrant` layer runs again within a backward of its own, on a detached input.
    """

    kind: Literal["none", "layers", "operations"]
    every: int
    frozen: bool = True
    reentrant: bool = False


Engine = Literal["ddp", "fsdp1", "fsdp2", "deepspeed"]


@dataclass(frozen=True, slots=True)
class ZeroBuffers:
    """DeepSpeed's buffers in numbers of elements: of one reduction, fetched ahead, most that are
    whole at once, and of a parameter that always is; and what it keeps on the host.
    """

    reduced: int
    prefetched: int
    live: int
    persistence_threshold: int
    contiguous: bool
    overlapped: bool
    optimizer_on_host: bool
    parameters_on_host: bool


@dataclass(frozen=True, slots=True)
class DataParallelism:
    """Who shares states out over data-parallel ranks, and how."""

    engine: Engine
    reshard_after_forward: bool
    sync_each_micro_batch: bool
    gradient_as_bucket_view: bool
    embedding_and_head_apart: bool
    zero: ZeroBuffers | None = None
    """Of DeepSpeed only."""


@dataclass(frozen=True, slots=True)
class PytorchStates:
    """Bytes per parameter in PyTorch's own optimizers.

    `parameters` are as the optimizer steps them and `gradients` as it reads them, `gathered` as a
    forward reads them, those of linears in layers `gathered_matrices`, and `reduced` as gradients
    are added up over ranks. `master` copies are DeepSpeed's. Moments of matrices are
    `matrix_moments`, of all else `moments`.
    """

    parameters: int
    gathered: int
    gathered_matrices: int
    gradients: int
    reduced: int
    master: int
    moments: Fraction
    matrix_moments: Fraction


@dataclass(frozen=True, slots=True)
class OptimizerStep:
    """How parameters are stepped: what the step keeps for a moment depends on it."""

    name: OptimizerName
    implementation: Implementation
    in_backward: bool
    paged: bool


@dataclass(frozen=True, slots=True)
class PytorchStep:
    """How the arithmetic of one step is done by modules of PyTorch.

    Activations take `activation_bytes` an element, the residual stream between the layers
    `residual_bytes`: more where autocast narrows the inputs of matrix products only.
    """

    activation_bytes: int
    residual_bytes: int
    half: bool
    """Activations are fp16, not bf16."""
    autocast: bool
    states: PytorchStates
    optimizer: OptimizerStep
    data_parallelism: DataParallelism
    checkpointing: Checkpointing
    offload_activations: bool
    adapters: Adapters | None
    frozen: frozenset[str]
    kernels: Literal["eager", "fused"]
    compiled: bool
    float8: bool
    """Linears of layers multiply in fp8, as torchao has them do."""
    repeats_kv: bool
    attention_backend: Literal["flash", "sdpa", "eager"]
    attention_dropout: bool
    hidden_dropout: bool
    cross_entropy: Literal["full", "fused", "chunked", "checkpointed", "with_head"]
    shifted: Literal["labels", "logits", "fp32_logits"]
    loss_chunks: int
    logits_kept: int
    """Tokens of a sample whose logits are computed; 0: all."""
    loss_parallel: bool
    collects_outputs: bool
    """A pipeline keeps the logits of the whole batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PytorchPlan(Plan):
    """A plan for torchtitan, or for Hugging Face transformers."""

    framework: Torchtitan | Transformers
    step: PytorchStep

"""The plan of a job whose model is made of PyTorch's modules: torchtitan's, transformers'."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from trainfit.resolve.plan import Plan
from trainfit.specs.framework import Torchtitan, Transformers
from trainfit.specs.loss import Entropy, LogProbs
from trainfit.specs.optimizers import Implementation, OptimizerName
from trainfit.specs.peft import AdaptedPart
from trainfit.specs.precision import Narrow


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
    a frozen matrix takes `matrix_bytes` in storage, of which `scale_bytes` are its quantisation's;
    one of experts does where it is `with_experts`, else it is stored as what is no matrix.
    `saved` are modules that are trained whole. Products of the `fused` parts of a layer run with
    their adapters as one function. Adapters that are `decomposed` learn the length of each row of
    the matrix beside them.
    """

    rank: int
    dropout: bool
    targets: frozenset[str] | None
    element_bytes: int
    computed_bytes: int
    matrix_bytes: Fraction
    scale_bytes: Fraction
    with_experts: bool
    saved: frozenset[str]
    base_dtype: str | None
    """How what is not quantised of the base is stored, where a forward narrows what it reads."""
    virtual: VirtualTokens | None
    fused: frozenset[AdaptedPart]
    decomposed: bool

    @property
    def narrow_ends(self) -> bool:
        """Whether embedding and head of the base are stored narrower than its norms."""
        return self.base_dtype == "fp32-norms"


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
    attention_again: bool = False
    """What is kept does not name attention's kernel, so that it runs again, too."""


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
class DataParallelStrategy:
    """Who shares states out over data-parallel ranks, and how."""

    engine: Engine
    reshard_after_forward: bool
    sync_each_micro_batch: bool
    gradient_as_bucket_view: bool
    embedding_and_head_apart: bool
    on_host: bool = False
    """FSDP keeps shares of weights, gradients and optimizer states in host memory."""
    zero: ZeroBuffers | None = None
    """Of DeepSpeed only."""


@dataclass(frozen=True, slots=True)
class PytorchStates:
    """Bytes per parameter in PyTorch's own optimizers.

    `parameters` are as the optimizer steps them and `gradients` as it reads them, `gathered` as a
    forward reads them, those of linears in layers `gathered_matrices`, and `reduced` as gradients
    are added up over ranks. `master` copies are DeepSpeed's. Moments of matrices are
    `matrix_moments`, those of embeddings `embedding_moments`, of all else `moments`.
    """

    parameters: int
    gathered: int
    gathered_matrices: int
    gradients: int
    reduced: int
    master: int
    moments: Fraction
    matrix_moments: Fraction
    embedding_moments: Fraction


@dataclass(frozen=True, slots=True)
class OptimizerStep:
    """How parameters are stepped: what the step keeps for a moment depends on it."""

    name: OptimizerName
    implementation: Implementation
    in_backward: bool
    paged: bool


@dataclass(frozen=True, slots=True)
class Preference:
    """A loss over log-probabilities of whole samples, `by` whose code they are computed: beside
    those of no `reference`, of the base without its adapters, or of a copy of the model.
    The cross entropy of chosen samples may be added.
    """

    reference: Literal["none", "base", "copy"]
    by: LogProbs
    chosen_nll: bool


class PolicyLoss(NamedTuple):
    """A loss over log-probabilities of generated tokens, `by` whose code they are computed. Those
    of a reference were computed before, by a model of its own that is still there where it
    `has_copy`.
    """

    by: LogProbs
    has_copy: bool
    entropy: Entropy
    scored: int
    """Tokens that run without gradients at once; 0: no more than a micro-batch has."""
    beside_optimizer: bool
    """The states of the optimizer are there meanwhile."""

    @property
    def holds_answer(self) -> bool:
        """Whether what the model answers, its logits in fp32, is held until the step is over."""
        return self.by.startswith("openrlhf")


class NarrowProducts(NamedTuple):
    """How linears of layers multiply narrower than activations are, in copies of `copy_bytes` an
    element. The gradient of an output is copied `casts` times at once.
    """

    recipe: Narrow
    copy_bytes: Fraction
    casts: int
    keeps_columns: bool
    """Saved is not the input but its copy by columns, which the gradient of the weight reads."""
    shares_columns: bool
    """Of one input there is one such copy, whoever reads it."""
    keeps_weight: bool
    """Saved is a copy of the weight, which the gradient of the input reads."""
    recognised: bool
    """Checkpointing by operations takes the products for matrix products."""


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
    data_parallelism: DataParallelStrategy
    checkpointing: Checkpointing
    offload_activations: bool
    ulysses: bool
    """Context-parallel ranks exchange heads rather than keys and values."""
    adapters: Adapters | None
    frozen: frozenset[str]
    kernels: Literal["eager", "fused"]
    compiled: bool
    narrow: NarrowProducts | None
    """Linears of layers multiply in fp8 or fp4, as torchao has them do."""
    narrow_experts: NarrowProducts | None
    """Grouped products of experts do."""
    repeats_kv: bool
    scales_by_sinks: bool
    """The kernel of attention takes no sinks: its output is scaled by what they leave of it."""
    fuses_qkv: bool
    """Queries, keys and values are copied out of one product."""
    turns_as_complex: bool
    """Positions turn queries and keys in one product of complex numbers, in fp32."""
    attention_backend: Literal["flash", "sdpa", "eager"]
    attention_dropout: bool
    hidden_dropout: bool
    cross_entropy: Literal["full", "fused", "chunked", "checkpointed", "with_head", "cut"]
    shifted: Literal["labels", "logits", "fp32_logits"]
    loss_chunks: int
    preference: Preference | None
    policy: PolicyLoss | None
    logits_kept: int
    """Tokens of a sample whose logits are computed; 0: all."""
    loss_parallel: bool
    collects_outputs: bool
    """A pipeline keeps the logits of the whole batch."""
    experts_one_by_one: bool
    """Each expert has linears of its own, which run behind those of the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PytorchPlan(Plan):
    """A plan for torchtitan, or for Hugging Face transformers."""

    framework: Torchtitan | Transformers
    step: PytorchStep

    @property
    def generates(self) -> bool:
        return self.step.policy is not None

    @property
    def runs_reference(self) -> bool:
        return self.step.preference is not None and self.step.preference.reference != "none"

"""The plan of a job of Megatron-LM or Megatron-Bridge."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

from trainfit.resolve.plan import Plan
from trainfit.specs.framework import Megatron
from trainfit.specs.precision import Narrow
from trainfit.specs.training import FlexBackend, MuonTensorParallelism

if TYPE_CHECKING:
    from trainfit.resolve.pytorch.plan import PytorchStep

OFFLOADED = "offload:"
"""What stands before the name of a module whose tensors are offloaded, not recomputed."""


@dataclass(frozen=True, slots=True)
class NarrowWeights:
    """Copies in fp8 or fp4 of what linears multiply with, each of so many bytes an element: one in
    the order of rows, and one in that of columns where products need both. They stand `alone` in
    place of the weights, or beside them.
    """

    copies: int
    bytes: Fraction
    alone: bool


@dataclass(frozen=True, slots=True)
class BytesPerParameter:
    """Bytes per parameter of weights, main gradients, master weights and optimizer moments.

    `each_moment` is one of Adam's two, or the one that there is, `matrix_moments` those of
    matrices, `linear_master` the master weights of matrices of linears on top of `master`, `step`
    what the optimizer step borrows for each parameter of a shard. The optimizer `holds_master`
    weights among its states, or reads them.
    """

    weights: int
    narrow: NarrowWeights | None
    gradients: int
    master: int
    linear_master: int
    each_moment: tuple[int, ...]
    matrix_moments: int
    step: int
    holds_master: bool

    @property
    def copies_gradients(self) -> bool:
        """Whether a step copies gradients into fp32, before anything else."""
        return self.gradients < 4 and not self.holds_master

    @property
    def moments(self) -> int:
        """All of them."""
        return sum(self.each_moment)

    @property
    def linear_weights(self) -> Fraction:
        """What matrices of linears take on top of `weights`: less than nothing where they are kept
        in fp8 only.
        """
        if self.narrow is None:
            return Fraction(0)
        kept = self.narrow.copies * self.narrow.bytes
        return kept - self.weights if self.narrow.alone else kept


class MuonStep(NamedTuple):
    """How Muon orthogonalises matrices, of which so many ranks have each a part: dense ones, and
    those of experts.
    """

    nesterov: bool
    tp_mode: MuonTensorParallelism
    tp: int
    etp: int


@dataclass(frozen=True, slots=True)
class AttentionBytes:
    """Bytes of an element of what the kernel of attention keeps: of queries, keys and values, and
    of its output.
    """

    inputs: Fraction
    output: Fraction


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
        """Names under which a tensor may be made to leave: recomputed or offloaded modules."""
        return self.modules | {OFFLOADED + module for module in self.offloaded}


@dataclass(frozen=True, slots=True)
class LinearAdapters:
    """Low-rank adapters, in the type of the weights, of the linears that `targets` names. All else
    is frozen.
    """

    rank: int
    dropout: bool
    targets: frozenset[str]


ActorsCode = Literal["verl", "verl-fused", "slime", "slime-divided", "ms-swift", "nemo-rl"]
"""Whose code computes log-probabilities over Megatron."""


class ActorLoss(NamedTuple):
    """Log-probabilities of what a policy has generated, and whether an entropy is learnt."""

    by: ActorsCode
    entropy: bool


@dataclass(frozen=True, slots=True)
class StepArithmetic:
    """How the arithmetic of one step is done."""

    activation_bytes: int
    linear_input_bytes: Fraction
    """Bytes of an element that a linear keeps of its input: less than an activation's in fp8."""
    narrow_recipe: Narrow | None
    """How linears multiply in fp8 or fp4, if they do."""
    head_weight: Fraction
    """Bytes of copies of an element of the output layer's weight in fp8."""
    attention: AttentionBytes | None
    """What the kernel of attention keeps in fp8, if it reads fp8."""
    states: BytesPerParameter
    optimizer_offload_ratio: float
    recompute: RecomputePolicy
    attention_backend: Literal["flash", "fused", "unfused"]
    attention_dropout: bool
    hidden_dropout: bool
    cross_entropy: Literal["unfused", "native_fused", "te_fused"]
    actor: ActorLoss | None
    """How log-probabilities are computed, where the loss is over what an actor has made."""
    has_copy: bool
    """A second model lies beside, which only runs forward before a step."""
    adapters: LinearAdapters | None
    """What is trained, if not all of the model."""
    muon: MuonStep | None = None
    frozen: frozenset[str] = frozenset()
    """Tower, projector or the text's model, by the names of a job, where these are not trained."""
    tunes_kernels: bool = False
    """Whether Triton's autotuner measures kernels, as it does in the first step."""


@dataclass(frozen=True, slots=True)
class Routing:
    """How tokens reach the experts, and how many rows that makes."""

    dispatcher: Literal["alltoall", "allgather", FlexBackend]
    grouped_gemm: bool
    permute_fusion: bool

    capacity_factor: float
    pad_to_capacity: bool
    imbalance_factor: float
    random: bool
    """Whether experts are chosen at random."""
    probability_bytes: int
    shared_expert_overlap: bool
    deepep_sms: int
    rank_capacity_factor: float
    """Room on a rank for so many times its balanced share of rows; 0: for what arrives."""
    stash_factor: float
    """Rows kept for backward, as a multiple of those that arrive; 0: all that there is room for."""
    align: int
    """The rows of each expert are filled up to multiples of so many by the router."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronPlan(Plan):
    """A plan for Megatron-LM or Megatron-Bridge."""

    framework: Megatron
    step: StepArithmetic
    routing: Routing
    tower: PytorchStep | None = None
    """How a tower of transformers' modules runs, if there is one."""

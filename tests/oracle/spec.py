"""What the oracle is asked: one training step, as a flat record with defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal, get_args, get_type_hints

Dtype = Literal["fp32", "bf16", "fp16"]
Precision = Literal["bf16", "fp16", "fp32", "autocast", "autocast_fp16", "fsdp_mp"]
Strategy = Literal["single", "ddp", "fsdp2", "hsdp", "tp", "fsdp2_tp", "fsdp2_ep", "autotp"]
Schedule = Literal[
    "1F1B",
    "GPipe",
    "Interleaved1F1B",
    "LoopedBFS",
    "InterleavedZeroBubble",
    "ZBVZeroBubble",
    "DualPipeV",
]
Recompute = Literal["none", "full", "selective", "selective_op", "selective_layer"]
Optimizer = Literal[
    "adamw_foreach", "adamw_fused", "adamw_forloop", "sgd", "sgd_momentum", "adafactor", "lion"
]


class SpecError(ValueError):
    """A spec names a field or a value that there is not, or values that exclude each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Adapters of low rank by PEFT; all else is frozen."""

    rank: int = 16
    targets: tuple[str, ...] | Literal["all-linear"] = "all-linear"
    dropout: float = 0.0
    dtype: Literal["fp32", "base"] = "fp32"
    """PEFT makes adapters of half-precision models fp32 unless told otherwise."""
    decomposed: bool = False
    """The lengths of a matrix's rows are learned beside their direction (DoRA)."""
    input_grads: bool = False
    """`enable_input_require_grads`: the embedding's output takes a gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One training step. `seq` and `mbs` are tokens and sequences of a micro-batch."""

    name: str | None = None

    model_type: str = "llama"
    config: Mapping[str, Any] = field(default_factory=dict)
    num_layers: int | None = None
    """In place of what `config` says."""
    attn: Literal["flash", "cpu_sdpa", "eager"] = "flash"
    """flash: the kernel that a CUDA build picks; cpu_sdpa: the one that a CPU build picks."""
    experts: Literal["grouped_mm", "batched_mm"] = "grouped_mm"
    lora: Lora | None = None
    virtual_tokens: int = 0
    """Prompt learning by PEFT: so many tokens before each sequence are all that is trained."""
    virtual_kind: Literal["prompt", "prefix", "projected_prefix", "mlp", "lstm"] = "prompt"
    """What is trained of them: embeddings, keys and values, either from a projection, or what
    P-tuning's encoder makes."""
    freeze: tuple[str, ...] = ()
    """Parts of the names of parameters that take no gradient."""

    images: int = 0
    """Images of each sequence, where the model sees, each as large as its config says."""
    image_tokens: int = 0
    """Tokens of each sequence that stand for them."""

    seq: int = 2048
    mbs: int = 1
    micro_batches: int = 1
    gradient_sync: Literal["every", "last"] = "every"
    """Reduce gradients in every micro-batch, or in the last one only."""

    dtype: Precision = "bf16"
    """autocast: fp32 parameters; fsdp_mp: fp32 parameters, bf16 compute, fp32 reduction."""
    base_dtype: Dtype | None = None
    """Of the model's own parameters under autocast, in place of fp32."""
    reduce_dtype: Dtype | None = None
    """Of FSDP's reduction. None: fp32 under fsdp_mp, else that of the parameters."""

    optimizer: Optimizer = "adamw_foreach"
    optimizer_in_backward: bool = False
    """Update a parameter, and drop its gradient, as soon as its gradient is there."""

    strategy: Strategy = "single"
    world: int = 1
    replicate: int = 1
    """hsdp: how many replicas `world` is divided into."""
    tp: int = 1
    ep: int = 1
    """fsdp2_ep: over how many of the ranks experts are divided."""
    dispatch: Literal["torchtitan", "transformers"] = "torchtitan"
    """Whose mixture of experts runs, and how its rows reach the ranks of their experts."""
    sp: bool = True
    loss_parallel: bool = True
    pp: int = 1
    """Pipeline ranks, of which `pp_rank` is run; `world` is a multiple of them."""
    pp_rank: int = 0
    pp_layout: str = ""
    """Virtual stages between |: E the embedding, t a layer, L norm, head and loss."""
    schedule: Schedule = "1F1B"
    pp_reshards: bool = False
    """Let go of a layer's weights after its forward; torchtitan does not, with a pipeline."""
    reshard_after_forward: bool = True
    fsdp_wrap: Literal["root", "torchtitan"] = "root"
    """root: every block, and all else in one group. torchtitan: the embedding, and the final norm
    with the head, are groups of their own; tied, they are one group."""
    gradient_as_bucket_view: bool = False

    ac: Recompute = "none"
    """selective: save attention and every other mm. selective_op: torchtitan's list of operations.
    selective_layer: recompute every `ac_every`-th block."""
    ac_every: int = 2
    ac_frozen: bool = True
    """Recompute blocks of which nothing is trained, too."""
    offload: bool = False
    """Keep what is saved for backward in host memory (`save_on_cpu`)."""

    loss: Literal[
        "hf", "chunked", "chunked_nll", "fused_linear", "reward", "preference", "policy"
    ] = "hf"
    """hf: ForCausalLMLoss; chunked: torchtitan's; chunked_nll: TRL's; fused_linear: Liger's;
    reward: that of TRL's RewardTrainer, over a head of one value; preference: of its `trainer`;
    policy: of its GRPOTrainer over the last `logits_to_keep` tokens."""
    reference: Literal["base", "copy"] | None = None
    """preference: beside which log-probabilities: of the base without its adapters, a copy's."""
    trl: str = ""
    """preference, policy: the release whose trainer ran."""
    verl: str = ""
    """policy: the release whose actor ran in place of a trainer."""
    openrlhf: str = ""
    """policy: the release of OpenRLHF whose actor ran."""
    temperature: float = 1.0
    """By which OpenRLHF's actor divides logits."""
    entropy: Literal["none", "compiled", "whole", "chunks", "remade"] = "none"
    """How an actor computes the entropy of the logits."""
    pads: bool = False
    """The actor keeps the padding of samples."""
    fused: bool = False
    """verl's actor has head and log-probabilities in one."""
    trainer: Literal["DPOTrainer", "ORPOTrainer", "CPOTrainer", "KTOTrainer"] = "DPOTrainer"
    """preference: its class."""
    loss_chunks: int = 8
    logits_to_keep: int = 0
    """Compute the logits of so many last tokens; 0: of all."""
    keep_logits: bool = False
    """Hold on to the logits until backward is over; a pipeline to those of the whole batch."""

    @staticmethod
    def parse(given: Mapping[str, Any]) -> Spec:
        """A spec from JSON. Raises SpecError where it does not hold together."""
        values = dict(given)
        if values.get("lora") is not None:
            values["lora"] = _build(Lora, values["lora"])
        spec: Spec = _build(Spec, values)
        if contradiction := spec.contradiction():
            raise SpecError(contradiction)
        return spec

    @property
    def by_trainer(self) -> bool:
        """Whether a trainer of TRL computes the loss of what the model answers."""
        return self.loss in ("reward", "preference", "policy") and not self.by_actor

    @property
    def by_actor(self) -> bool:
        """Whether an actor of verl's or OpenRLHF's does."""
        return bool(self.verl or self.openrlhf)

    def contradiction(self) -> str | None:
        """Why the step cannot be run, if it cannot."""
        if self.lora and self.virtual_tokens:
            return "adapters and virtual tokens exclude each other"
        if self.virtual_tokens and self.loss != "hf":
            return "virtual tokens go with the plain loss only"
        shortened = self.logits_to_keep and self.loss_parallel
        if self.uses_tp and (self.is_adapted or self.loss != "hf" or shortened):
            return "tensor parallelism goes with no adapters and the plain loss only"
        if self.pp > 1 and not (self.strategy in ("single", "fsdp2") and self.is_plain):
            return "a pipeline goes with single or fsdp2, all trained and the plain loss only"
        if self.world % self.pp:
            return "world must be a multiple of pp"
        if self.uses_tp and self.world % self.tp:
            return "world must be a multiple of tp"
        if self.strategy == "autotp" and (self.sp or self.loss_parallel):
            return "autotp shares neither the sequence nor the loss"
        if self.strategy == "hsdp" and self.world % self.replicate:
            return "world must be a multiple of replicate"
        if self.strategy == "fsdp2_ep" and (self.world % self.ep or self.fsdp_wrap == "root"):
            return "fsdp2_ep needs a world that is a multiple of ep, and torchtitan's fsdp_wrap"
        if self.dtype == "fsdp_mp" and not self.uses_fsdp:
            return "fsdp_mp needs fsdp2, hsdp, fsdp2_tp or fsdp2_ep"
        if self.loss == "chunked" and self.uses_fsdp and self.fsdp_wrap != "torchtitan":
            return "under FSDP the chunked loss needs the head in a group of its own"
        if self.loss == "chunked" and self.mbs * self.seq % self.loss_chunks:
            return "tokens must be a multiple of loss_chunks"
        if self.optimizer_in_backward and self.micro_batches > 1:
            return "an optimizer in backward leaves no gradients to accumulate"
        return None

    @property
    def is_adapted(self) -> bool:
        return self.lora is not None or self.virtual_tokens > 0

    @property
    def is_plain(self) -> bool:
        return not (self.is_adapted or self.freeze or self.logits_to_keep) and self.loss == "hf"

    @property
    def uses_fsdp(self) -> bool:
        return self.strategy in ("fsdp2", "hsdp", "fsdp2_tp", "fsdp2_ep")

    @property
    def uses_tp(self) -> bool:
        divided = self.strategy == "fsdp2_ep" and self.tp > 1
        return divided or self.strategy in ("tp", "fsdp2_tp", "autotp")

    @property
    def syncs(self) -> tuple[bool, ...]:
        """For every micro-batch, whether its gradients are reduced."""
        last = self.micro_batches - 1
        return tuple(self.gradient_sync == "every" or i == last for i in range(last + 1))


def _build(kind: type, values: Mapping[str, Any]) -> Any:
    """A record of a kind, its names and its literal values checked."""
    if unknown := set(values) - {each.name for each in fields(kind)}:
        raise SpecError(f"{kind.__name__.lower()} has no field {', '.join(sorted(unknown))}")
    allows = _allowed(kind)
    for name, value in values.items():
        allowed = allows[name]
        if allowed and isinstance(value, str) and value not in allowed:
            raise SpecError(f"{name} is {value!r}, not one of {', '.join(map(str, allowed))}")
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


@cache
def _allowed(kind: type) -> Mapping[str, Sequence[Any]]:
    """The values of each field of a record that literals allow."""
    return {name: _literals(hint) for name, hint in get_type_hints(kind).items()}


def _literals(hint: Any) -> list[Any]:
    """The values that a literal allows, also one in a union."""
    return [
        value
        for part in get_args(hint)
        for value in (_literals(part) if get_args(part) else [part])
        if isinstance(value, str)
    ]

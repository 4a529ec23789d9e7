"""The legend: what the symbols in every formula mean.

s sequence, b micro-batch, h hidden, a heads, g kv heads, d head dimension, f width of a
feed-forward network, V vocabulary (padded), L layers, E experts, k experts per token;
t tensor, p pipeline, c context, e expert, x expert-tensor parallel size, n tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, ClassVar, TypeVar

from trainfit.estimator.run import MegatronRun
from trainfit.estimator.tensors import Size
from trainfit.specs.peft import AdaptedPart

if TYPE_CHECKING:
    from trainfit.resolve.pytorch.plan import Adapters, NarrowProducts, PytorchPlan


@dataclass(frozen=True, slots=True)
class Legend:
    """Sizes that every table of operations shares. All are counts unless they end in `bytes`."""

    NUMBERS: ClassVar[tuple[str, ...]] = (
        "h",
        "b",
        "s",
        "V",
        "t",
        "c",
        "e",
        "x",
        "n",
        "n_shard",
        "streams",
    )
    """Those that programs work with as numbers, all above zero. `n_gathered` is n or 0."""

    h: int
    """Hidden size."""
    b: int
    """Samples of a micro-batch."""
    s: int
    """Tokens of a sample on one context-parallel rank."""
    V: int
    """Rows of the vocabulary, padded, before the split over t."""
    t: int
    c: int
    e: int
    x: int
    n: int
    """Tokens of a micro-batch on one context-parallel rank: s b / c."""
    n_shard: int
    """n' : those that a rank keeps outside attention and MLP; n / t with sequence parallelism."""
    n_gathered: int
    """Tokens gathered from the other tensor-parallel ranks: n, or 0 where none are."""
    bytes: int
    """Bytes of an element of an activation."""
    linear_input_bytes: Fraction
    """Bytes of an element that a linear keeps of its input."""
    streams: int
    """Copies of the residual stream that the model keeps; 1 in most."""

    @property
    def act(self) -> int:
        """Bytes of one [n', h] tensor of the residual stream."""
        return self.bytes * self.h * self.n_shard

    def kept(self, size: int) -> int:
        """What a linear keeps of an input that takes `size` bytes as an activation."""
        if self.linear_input_bytes == self.bytes:
            return size
        return ceil(size * self.linear_input_bytes / self.bytes)

    def copied(self, size: int) -> int:
        """What a linear keeps besides an input that someone else keeps as it is."""
        return 0 if self.linear_input_bytes == self.bytes else self.kept(size)


Sizes = TypeVar("Sizes", bound=Legend)


def in_symbols(sizes: Sizes) -> Sizes:
    """The sizes under their names."""
    return replace(
        sizes,
        h=Size(sizes.h, "h"),
        b=Size(sizes.b, "b"),
        s=Size(sizes.s, "s"),
        V=Size(sizes.V, "V"),
        t=Size(sizes.t, "t"),
        c=Size(sizes.c, "c"),
        e=Size(sizes.e, "e"),
        x=Size(sizes.x, "x"),
        n=Size(sizes.n, "n"),
        n_shard=Size(sizes.n_shard, "n'"),
        n_gathered=Size(sizes.n_gathered, "n") if sizes.n_gathered else 0,
        streams=Size(sizes.streams, "streams"),
    )


def legend_of(run: MegatronRun) -> Legend:
    sequence = run.seq_length // run.cp
    n = sequence * run.micro_batch_size
    sharded = run.sequence_parallel and run.tp > 1
    return Legend(
        h=run.model.hidden_size,
        b=run.micro_batch_size,
        s=sequence,
        V=run.vocabulary_rows,
        t=run.tp,
        c=run.cp,
        e=run.ep,
        x=run.etp,
        n=n,
        n_shard=n // run.tp if sharded else n,
        n_gathered=n if sharded else 0,
        bytes=run.step.activation_bytes,
        linear_input_bytes=run.step.linear_input_bytes,
        streams=run.model.residual_streams,
    )


PACKED_NAMES = ("query_key_value", "c_attn", "qkv_proj", "Wqkv", "wqkv")
OTHER_NAMES = {
    "q_proj": (*PACKED_NAMES, "wq", "q_b_proj"),
    "k_proj": (*PACKED_NAMES, "wk"),
    "v_proj": (*PACKED_NAMES, "wv"),
    "o_proj": ("dense", "c_proj", "out_proj", "wo", "output_proj"),
    "gate_proj": ("gate_up_proj", "w1"),
    "up_proj": ("gate_up_proj", "dense_h_to_4h", "c_fc", "fc1", "w3"),
    "down_proj": ("dense_4h_to_h", "c_proj", "fc2", "w2"),
    "router": ("gate",),
}
"""What models call these modules otherwise, by their names in Llama."""
NOT_LINEARS = ("convolution", "matrix")
"""Products of towers that no adapter stands beside: PEFT takes all-linear at its word."""
HEADS = ("lm_head", "score")
"""Heads of a vocabulary and of labels, which nobody quantises, narrows to fp8 or adapts unasked."""


@dataclass(frozen=True, slots=True)
class PytorchLegend(Legend):
    """The legend of modules of PyTorch, and what decides which of their tensors are saved."""

    NUMBERS: ClassVar[tuple[str, ...]] = (*Legend.NUMBERS, "shards")

    residual_bytes: int
    """Bytes of an element of the residual stream."""
    gradient_bytes: int
    """Bytes of an element of a weight gradient as backward makes it."""
    autocast: bool
    fused: bool
    """Norms and activations are one kernel each: Liger's, or compiled."""
    gathers: bool
    """Tensor-parallel ranks share out the sequence between the blocks, and gather it for them."""
    adapters: Adapters | None
    frozen: frozenset[str]
    tied: bool
    narrow: NarrowProducts | None
    """How linears multiply in fp8 or fp4, if they do."""
    float8_weights: bool
    """Their weights are gathered in fp8."""
    prefix: int = 0
    """Trained keys and values of every layer before those of a sample, by their tokens."""
    still: bool = False
    """The weights of the layer that runs are not trained."""
    shards: int = 1
    """Data-parallel ranks that share out the optimizer's states."""

    @property
    def act(self) -> int:
        """Bytes of one [n', h] tensor of the residual stream."""
        return self.residual_bytes * self.h * self.n_shard

    @property
    def embedded(self) -> int:
        """Bytes of what the embedding makes: the first layer reads it, and those behind it what
        wider norms have made of the residual stream.
        """
        return self.embedding_bytes * self.h * self.n_shard

    @property
    def embedding_bytes(self) -> int:
        """Bytes of an element of it."""
        narrow = self.adapters is not None and self.adapters.narrow_ends
        return self.bytes if narrow else self.residual_bytes

    def trains(self, module: str) -> bool:
        """Whether the module's own weights are trained. A tied head is its embedding, and the
        final norm is one of the norms.
        """
        if module == "final_norm" and module not in self.frozen:
            module = "norm"
        if module == "lm_head" and self.tied:
            module = "embed_tokens"
        if self.still:
            return False
        if self.adapters is None:
            return module not in self.frozen
        return not self.adapters.saved.isdisjoint((module, *OTHER_NAMES.get(module, ())))

    @property
    def narrows(self) -> bool:
        """Whether autocast finds weights and a residual stream that it narrows."""
        return self.autocast and self.residual_bytes > self.bytes

    @property
    def narrows_head(self) -> bool:
        """Whether autocast finds a head that it narrows."""
        return self.narrows and (self.adapters is None or not self.adapters.narrow_ends)

    def narrows_product(self, module: str) -> NarrowProducts | None:
        """How the module multiplies in fp8 or fp4, if it does."""
        return None if module in HEADS else self.narrow

    def is_quantised(self, module: str) -> bool:
        """Whether the module's matrix is stored narrower than a product reads it: the head's is
        not (transformers' get_keys_to_not_convert), nor need those of experts be.
        """
        adapters = self.adapters
        if adapters is None or adapters.matrix_bytes >= self.bytes or module in HEADS:
            return False
        return not self.trains(module) and (module != "experts" or adapters.with_experts)

    def product_bytes(self, module: str) -> int:
        """Bytes of an element of a product of the residual stream: autocast makes it narrow,
        bitsandbytes gives back the type that it read (Linear4bit.forward).
        """
        return self.residual_bytes if self.is_quantised(module) else self.bytes

    def adapts(self, module: str) -> bool:
        """Whether the module has a low-rank adapter."""
        if self.adapters is None:
            return False
        targets = self.adapters.targets
        if targets is None:
            return module not in (*HEADS, *NOT_LINEARS)
        return not targets.isdisjoint((module, *OTHER_NAMES.get(module, ())))

    def fuses(self, part: AdaptedPart, *modules: str) -> bool:
        """Whether these modules, of a part of a layer, each run with an adapter of their own as one
        function.
        """
        if self.adapters is None or part not in self.adapters.fused:
            return False
        return all(self.adapts(each) and not self.trains(each) for each in modules)

    @property
    def adapter_bytes(self) -> int:
        """Bytes of an element of what an adapter computes; 0 without any."""
        if self.adapters is None:
            return 0
        return self.adapters.computed_bytes

    def shares_input(self, module: str, width: int | Fraction) -> bool:
        """Whether the module's adapter keeps what the module reads, of so many bytes an element, as
        it is. One of a wider type keeps a copy, one behind a dropout what that leaves. Under
        autocast the adapters of bitsandbytes' modules do not widen first (peft/tuners/lora/bnb.py).
        """
        if self.adapters is None or self.adapters.dropout or not self.adapts(module):
            return False
        if not self.autocast:
            return self.adapter_bytes == self.bytes
        stored_narrow = self.adapters.element_bytes == self.bytes
        return width == self.bytes and (self.is_quantised(module) or stored_narrow)


def pytorch_legend_of(plan: PytorchPlan) -> PytorchLegend:
    layout, batch, step = plan.layout, plan.batch, plan.step
    virtual = step.adapters.virtual if step.adapters is not None else None
    before = 0 if virtual is None or virtual.in_attention else virtual.count
    sequence = (batch.seq_length + before) // layout.cp
    n = sequence * batch.micro_batch_size
    gathers = layout.sequence_parallel and layout.tp > 1
    return PytorchLegend(
        h=plan.model.hidden_size,
        b=batch.micro_batch_size,
        s=sequence,
        V=plan.vocabulary_rows,
        t=layout.tp,
        c=layout.cp,
        e=layout.ep,
        x=layout.etp,
        n=n,
        n_shard=n // layout.tp if gathers else n,
        n_gathered=n if gathers else 0,
        bytes=step.activation_bytes,
        linear_input_bytes=Fraction(step.activation_bytes),
        streams=plan.model.residual_streams,
        residual_bytes=step.residual_bytes,
        gradient_bytes=step.states.gathered,
        autocast=step.autocast,
        fused=step.kernels == "fused",
        gathers=gathers,
        adapters=step.adapters,
        frozen=step.frozen,
        tied=plan.model.output_layer.tied,
        narrow=step.narrow,
        float8_weights=step.states.gathered_matrices < step.states.gathered,
        prefix=virtual.count if virtual is not None and virtual.in_attention else 0,
        shards=layout.optimizer_shards,
    )

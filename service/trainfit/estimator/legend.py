"""The legend: what the symbols in every formula mean.

s sequence, b micro-batch, h hidden, a heads, g kv heads, d head dimension, f width of a
feed-forward network, V vocabulary (padded), L layers, E experts, k experts per token;
t tensor, p pipeline, c context, e expert, x expert-tensor parallel size, n tokens.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from trainfit.resolve.plan import Adapters, MegatronPlan, PytorchPlan


@dataclass(frozen=True, slots=True)
class Legend:
    """Sizes that every table of operations shares. All are counts unless they end in `bytes`."""

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


def legend_of(plan: MegatronPlan) -> Legend:
    layout, batch = plan.layout, plan.batch
    sequence = batch.seq_length // layout.cp
    n = sequence * batch.micro_batch_size
    sharded = layout.sequence_parallel and layout.tp > 1
    return Legend(
        h=plan.model.hidden_size,
        b=batch.micro_batch_size,
        s=sequence,
        V=plan.vocabulary_rows,
        t=layout.tp,
        c=layout.cp,
        e=layout.ep,
        x=layout.etp,
        n=n,
        n_shard=n // layout.tp if sharded else n,
        n_gathered=n if sharded else 0,
        bytes=plan.step.activation_bytes,
        linear_input_bytes=plan.step.linear_input_bytes,
        streams=plan.model.residual_streams,
    )


@dataclass(frozen=True, slots=True)
class PytorchLegend(Legend):
    """The legend of modules of PyTorch, and what decides which of their tensors are saved."""

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

    @property
    def act(self) -> int:
        """Bytes of one [n', h] tensor of the residual stream."""
        return self.residual_bytes * self.h * self.n_shard

    def trains(self, module: str) -> bool:
        """Whether the module's own weights are trained."""
        return self.adapters is None or module in self.adapters.saved

    def adapts(self, module: str) -> bool:
        """Whether the module has a low-rank adapter."""
        if self.adapters is None:
            return False
        targets = self.adapters.targets
        return module != "lm_head" if targets is None else module in targets

    def needs_input(self, *modules: str) -> bool:
        """Whether one of the modules keeps what it reads, for the gradient of a weight."""
        return any(self.trains(module) or self.adapts(module) for module in modules)


def pytorch_legend_of(plan: PytorchPlan) -> PytorchLegend:
    layout, batch, step = plan.layout, plan.batch, plan.step
    sequence = batch.seq_length // layout.cp
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
    )

"""The operations of megatron-core with TransformerEngine: what each makes, saves and borrows.

Symbols: estimator.legend. Sources: TransformerEngine's pytorch/module (layernorm_linear.py,
linear.py, grouped_linear.py, rmsnorm.py) and attention/dot_product_attention (backends.py,
context_parallel.py); megatron/core/fusions (fused_bias_swiglu.py, fused_bias_gelu.py) and
tensor_parallel/layers.py.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Literal, Self

from trainfit.estimator.demands import Attention, Demand, Exchange, Product
from trainfit.estimator.ledger import Tensors
from trainfit.estimator.legend import Legend
from trainfit.estimator.operations.context_parallel import (
    around_ring,
    before_attention,
    behind_attention,
    of_all_ranks,
    on_stream,
)
from trainfit.estimator.operations.quantised import Quantised
from trainfit.estimator.program import highest
from trainfit.estimator.run import Way
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.megatron.plan import OFFLOADED

FP32 = 4
"""Bytes of an element; likewise below."""
INT32 = 4
INT64 = 8
BYTE = 1
INPUT_GRADIENT = "input gradient"
"""What the gradient of a norm's output is called."""
CORE = "core_attn"
"""Recomputed, all that the kernel itself keeps is made again."""
KEPT_BY_CORE = (CORE, OFFLOADED + CORE)
"""Offloaded, q, k and v leave, and what large tensors the kernel itself keeps."""
PROJECTED = (OFFLOADED + "attn_proj",)
NormKind = Literal["rmsnorm", "layernorm"]
Kept = tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]
"""What is saved, borrowed by forward and borrowed by backward."""


class TransformerEngine(Quantised):
    """Runs programs as megatron-core does."""

    def __init__(self, sizes: Legend, run: Way) -> None:
        super().__init__(sizes, run)
        self._accumulates_apart = not run.framework.gradient_accumulation_fusion

    def wide(self) -> Self:
        """The same where linears and attention read what is as wide as activations are."""
        sizes = replace(self.sizes, linear_input_bytes=Fraction(self.sizes.bytes))
        step = replace(self.run.step, narrow_recipe=None, attention=None)
        return type(self)(sizes, self.run._replace(step=step))

    def norm(
        self,
        kind: NormKind,
        x: Tensor,
        name: str = "norm",
        *,
        output: Tensor | None = None,
        again: tuple[str, ...] = (),
    ) -> None:
        """A norm keeps its input and statistics, and its `output` for whoever reads that, unless
        nobody's backward does. Before frozen linears it is theirs to keep it or not.
        """
        made = () if output is None else (output,)
        kept, passed = ((), made) if self.is_frozen else (made, ())
        narrow = output is not None and output.width < self.sizes.bytes
        quantised = self.before_quantised(*x.shape) if narrow else ()
        incoming = [self.passed_back(each, INPUT_GRADIENT) for each in made]
        self.operation(
            name,
            makes=passed,
            saves=(x, *kept, self.statistics(kind, x)),
            borrows=quantised,
            backward=(*incoming, self.gradient(x)),
            again=again,
        )

    def statistics(self, kind: NormKind, x: Tensor) -> Tensor:
        """rstd of every row in fp32, and the mean for LayerNorm."""
        each = (2,) if kind == "layernorm" else ()
        return self.tensor("norm statistics", *each, *x.shape[:-1], width=FP32)

    def column_linear(
        self, name: str, x: Tensor, features: int, output: str, *, rows: int = 0
    ) -> Tensor:
        """A product [n, features] with a matrix whose rows ranks share out, of which `rows` are
        this rank's; where they share out the sequence it is gathered, for either direction.
        """
        sizes, inputs, trained = self.sizes, x.shape[-1], not self.is_frozen
        y = self.tensor(output, sizes.n, features)
        gathered, again = [self.gathered_input(sizes.n_gathered, inputs) for _ in range(2)]
        of_x, of_y = self.passed_back(x, INPUT_GRADIENT), self.of_output(y)
        whole = self.tensor("input gradient of all", sizes.n, inputs) if sizes.n_gathered else of_x
        both = (whole, of_x) if sizes.n_gathered else (of_x,)
        weights = self.weight_gradient(rows or features, inputs)
        before = (
            *self.input_gradient(name, sizes.n, inputs),
            *(of_y, *self.of_gradient(*y.shape), *(again,) * trained),
        )
        turned = self.turned_input(again) if trained and sizes.n_gathered else ()
        weight = (rows or features, inputs)
        self.operation(
            name,
            makes=(y,),
            saves=self.reads(x),
            borrows=(
                *(*self.waits_for(x), *self.in_rows(x, gathers=sizes.n_gathered > 0)),
                gathered,
            ),
            backward=highest(before, (*before, whole), (*before, *both, *turned, *weights)),
            weight=weight,
            demands=(self.product(sizes.n, inputs, features), *self.into_columns(inputs)),
        )
        read = gathered if sizes.n_gathered else x
        self.adapter(name, read, y, of_y, weight, (sizes.t, 1))
        return y

    def linear(self, name: str, x: Tensor, features: int, output: str) -> Tensor:
        """A product [n', features] with a matrix that every rank has whole."""
        y, weight = self.tensor(output, x.shape[0], features), (features, x.shape[-1])
        self.operation(
            name,
            makes=(y,),
            saves=self.reads(x),
            borrows=(*self.waits_for(x), *self.in_rows(x)),
            backward=(
                *self.input_gradient(name, *x.shape),
                self.gradient(x),
                *(self.gradient(y), *self.of_gradient(*y.shape)),
                *self.weight_gradient(*weight),
            ),
            weight=weight,
            demands=(self.product(x.shape[0], x.shape[-1], features),),
        )
        self.adapter(name, x, y, self.gradient(y), weight, (self.sizes.t, self.sizes.t))
        return y

    def row_linear(
        self,
        name: str,
        x: Tensor,
        features: int,
        *,
        holds: Tensors = (),
        beside: Tensors = (),
    ) -> Tensor:
        """A product [n, features] with a matrix whose columns ranks share out, before the ranks'
        products are added up; its gradient is gathered where they share out the sequence. What is
        `beside` it is a local of its caller.
        """
        sizes, inputs = self.sizes, x.shape[-1]
        y = self.tensor("output before its reduction", sizes.n, features)
        reduced = self.tensor("output", sizes.n_gathered and sizes.n_shard, features)
        if sizes.n_gathered:
            gathered = self.gathered_gradient(sizes.n_shard, sizes.n_gathered, features)
        else:
            gathered = self.of_gradient(sizes.n, features)
        of_x, weight = self.of_output(x), (features, inputs)
        beside = (*beside, *self.waits_for(x), *self.in_rows(x))
        before = (*self.input_gradient(name, *x.shape), *gathered)
        self.operation(
            name,
            saves=self.reads(x),
            holds=holds,
            borrows=highest((*beside, y), (*beside, y, reduced)),
            backward=highest(before, (*before, of_x, *self.weight_gradient(*weight))),
            weight=weight,
            demands=(self.product(sizes.n, inputs, features), *self.out_of_rows(features)),
        )
        of_y = self.tensor("gathered gradient", sizes.n_gathered, features)
        self.adapter(name, x, y, of_y, weight, (1, sizes.t))
        return y

    def product(self, rows: int, inputs: int, features: int, experts: int = 0) -> Product:
        """In fp8 where linears are, unless this layer is wide."""
        narrow = self.run.step.narrow_recipe is not None
        return Product(rows, inputs, features, experts, 1 + (not self.is_frozen), narrow)

    def of_output(self, y: Tensor) -> Tensor:
        """The gradient of what one operation makes and another reads."""
        return self.passed_back(y, f"gradient of {y.name}")

    def _beside_stash(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Those of the tensors of which a stash is kept in their place."""
        return tuple([each for each in tensors if each in self._stashed])

    def weight_gradient(self, *shape: int) -> tuple[Tensor, ...]:
        """A gradient of its own, where it is not added to the main gradient within the GEMM."""
        apart = self._accumulates_apart and not self.is_frozen
        return (self.tensor("weight gradient", *shape),) if apart else ()

    def activation(
        self, name: str, x: Tensor, y: Tensor, *weights: Tensor, gated: bool, clamped: bool
    ) -> Tensor:
        """A fused activation keeps its input, and what its output is multiplied with. A gate that
        no kernel fuses keeps both its factors as well, since the linear one is a copy with its
        offset added, and the half that was clamped for the activation.
        Source: megatron/core/transformer/mlp.py and moe/experts.py (glu).
        """
        saves = [self._stashed.get(x, x), *weights]
        backward = [self.of_output(y), self.of_output(x), *self._beside_stash(x)]
        if gated and not self.run.framework.bias_activation_fusion:
            factors = self.tensor("factors of the gate", 2, *y.shape, dropped_by=y.dropped_by)
            saves.append(factors)
            backward.append(self.gradient(factors))
            if clamped:
                saves.append(self.tensor("clamped half", *y.shape, dropped_by=y.dropped_by))
        self.operation(
            name,
            makes=(y,),
            saves=tuple(saves),
            borrows=self._beside_stash(x),
            backward=tuple(backward),
            again=y.dropped_by,
        )
        return y

    def head_norms(self, kind: NormKind, *heads: Tensor) -> None:
        """Norms of the heads of q, and of k where it has one, in one module."""
        statistics = [self.statistics(kind, each) for each in heads]
        self.operation("qk_layernorm", saves=(*heads, *statistics))

    def split_heads(
        self, packed: Tensor, q: Tensor, k: Tensor, v: Tensor, *, rotates: bool
    ) -> None:
        """Queries, keys and values out of what was projected as one. Queries of several heads a
        group are copied out of it before they turn by position; values are a copy, and backward
        joins the gradients again.
        """
        grouped = rotates and q.shape[1] != k.shape[1]
        copied = (self.tensor("q before it is rotated", *q.shape),) if grouped else ()
        of_q, of_k, of_v = map(self.of_output, (q, k, v))
        turned_q, turned_k = (self.gradient(each) for each in (q, k)) if rotates else (of_q, of_k)
        self.operation(
            "split_heads",
            borrows=highest(
                (packed, *copied), (packed, *copied, q), (packed, q, k), (packed, q, k, v)
            ),
            backward=highest(
                (of_q, of_k, of_v, turned_k),
                (of_q, turned_k, of_v, turned_q),
                (turned_q, turned_k, of_v, self.of_output(packed)),
            ),
        )

    def attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        dropped_by: tuple[str, ...] = PROJECTED,
        *,
        sinks: bool = False,
        window: int | None = None,
        beside: Tensors = (),
    ) -> Tensor:
        """Softmax attention of q [n, a / t, d] to k [n, g / t, d] and v [n, g / t, d_v]; its
        output is [n, a d_v / t].

        Unfused attention repeats keys and values for every head and keeps the softmax, with
        dropout also the mask (1 byte) and the dropped scores. The kernels keep one fp32 logsumexp
        per head and query (FlashAttention, 2205.14135); FlashAttention's output is a copy in
        another layout where b > 1. An all-to-all over context-parallel ranks keeps the output
        before the exchange; point-to-point keeps it transposed where b > 1, and borrows what every
        step of its ring has; an all-gather borrows the keys and values of the whole sequence.
        """
        n, heads, width = self.sizes.n, q.shape[1], v.shape[2]
        out = self.tensor("attention output", n, heads * width, dropped_by=dropped_by)
        keys_and_values = k.shape[1] * (k.shape[2] + width)
        demands = self._attends(heads, k.shape[2] + width, keys_and_values, window)
        unfused = self.run.step.attention_backend == "unfused"
        if not unfused and self.exchanges_heads:
            return self._attention_between_exchanges(q, k, v, out, beside, demands)
        if not unfused and (self.passes_keys_round or self._gathers_keys):
            return self._attention_in_steps(q, k, v, out, beside, demands)
        if unfused:
            k = self.tensor("k of every head", n, heads, k.shape[2], dropped_by=k.dropped_by)
            v = self.tensor("v of every head", n, heads, width, dropped_by=v.dropped_by)
            saves, borrows, backward = self._scores(heads, sinks=sinks)
        else:
            saves, borrows, backward = self._kernel(heads, out, keys_and_values)
        read = tuple([self._attended(each) for each in (q, k, v)])
        if read != (q, k, v):
            borrows = (*borrows, q, k, v)
        self.operation(
            "core_attention",
            makes=(out,),
            saves=(*read, *saves),
            borrows=(*beside, *borrows),
            backward=(*map(self.of_output, (out, q, k, v)), *backward),
            demands=demands,
            again=(CORE,),
        )
        return out

    def _attended(self, x: Tensor, *, is_output: bool = False) -> Tensor:
        """What the kernel keeps of an input or of its output: that, or a copy in fp8."""
        kept = self.run.step.attention
        if kept is None or self.run.step.attention_backend == "unfused":
            return x
        width = kept.output if is_output else kept.inputs
        if width == x.width:
            return x
        return Tensor(f"{x.name} in fp8, for attention", x.shape, width, x.dropped_by)

    @property
    def exchanges_heads(self) -> bool:
        """Whether context-parallel ranks exchange sequences for heads, all at once."""
        return self.sizes.c > 1 and self.run.cp_comm_type == "a2a"

    @property
    def passes_keys_round(self) -> bool:
        """Whether they send keys and values round a ring, and keep what came last."""
        return self.run.cp_ring > 1 and self.run.cp_comm_type == "p2p"

    @property
    def _gathers_keys(self) -> bool:
        return self.sizes.c > 1 and self.run.cp_comm_type == "all_gather"

    def _attention_in_steps(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        beside: Tensors,
        demands: tuple[Demand, ...],
    ) -> Tensor:
        """The kernel over keys and values of one rank after the other, or for half of the queries
        at a time.
        """
        rings, flash = self.passes_keys_round, self.run.step.attention_backend == "flash"
        result = out
        if self.sizes.b > 1 and (rings or flash):
            name = "output in the kernel's layout"
            result = self.tensor(name, *out.shape, dropped_by=KEPT_BY_CORE)
        lse = self.tensor("logsumexp", q.shape[1], self.sizes.n, width=FP32, dropped_by=(CORE,))
        if rings:
            steps = around_ring(q, k, v, result, lse, self.run.cp_ring)
        else:
            steps = of_all_ranks(q, k, v, result, lse, self.sizes.c)
        read: Tensors = (q,) if rings else (q, k, v)
        local = tuple(dict.fromkeys((*beside, k, v))) if rings else beside
        saved, of_out = (*steps.kept, result, lse), self.of_output(out)
        for each, gradient in zip((q, k, v), steps.gradients, strict=True):
            self.passes_back(each, gradient)
        self.operation(
            "core_attention",
            makes=(out,),
            saves=(*read, *saved),
            borrows=highest(
                *[(*local, *moment) for moment in steps.forward],
                *[(*local, *saved)] * (result is not out),  # A copy of it is made behind all steps.
                saved=saved,
            ),
            backward=highest(*[(of_out, *moment) for moment in steps.backward]),
            demands=demands,
            again=(CORE,),
        )
        return out

    def _attention_between_exchanges(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        beside: Tensors,
        demands: tuple[Demand, ...],
    ) -> Tensor:
        """The kernel keeps what it reads and its own output; what it read of comes and its output
        goes by an all-to-all, and so do the gradients.
        """
        out = on_stream(out)
        result = self.tensor("output in the kernel's layout", *out.shape, dropped_by=(CORE,))
        lse = self.tensor("logsumexp", q.shape[1], self.sizes.n, width=FP32, dropped_by=(CORE,))
        arrived, sent = before_attention(q, k, v), behind_attention(result, into=(out,))
        saved, local = (*arrived.made, result, lse), tuple(dict.fromkeys((*beside, q, k, v)))
        of_out, of_heads = self.of_output(out), [self.gradient(each) for each in arrived.made]
        incoming, outgoing = before_attention(of_out), behind_attention(*of_heads)
        for each, gradient in zip((q, k, v), outgoing.made, strict=True):
            self.passes_back(each, gradient)
        gradients = (of_out, *incoming.made, *of_heads)
        self.operation(
            "core_attention",
            saves=saved,
            borrows=highest(
                *[(*local, *moment) for moment in arrived.moments],
                (*local, *saved),
                *[(*local, *saved, *moment) for moment in sent.moments],
                saved=saved,
            ),
            backward=highest(
                *[(of_out, *moment) for moment in incoming.moments],
                *[(*gradients, *moment) for moment in outgoing.moments],
            ),
            output=out,
            demands=demands,
            again=(CORE,),
        )
        return out

    def output_gate(self, out: Tensor, features: int) -> Tensor:
        """Attention's output [n, a d_v / t] times the sigmoid of a gate that was projected."""
        gated = self.tensor("gated output", *out.shape, dropped_by=PROJECTED)
        gate = self.tensor("gate", self.sizes.n, features)
        self.operation("output_gate", makes=(gated,), saves=(gate, out))
        return gated

    def grouped_linear(
        self, name: str, x: Tensor, y: Tensor, experts: int, *borrows: Tensor
    ) -> Tensor:
        """Products of rows [T_r, in] with the matrices of their `experts`."""
        features, weight = y.shape[-1], (y.shape[-1], x.shape[-1])
        self.operation(
            name,
            makes=(y,),
            saves=self.reads(x),
            borrows=(*borrows, *self.waits_for(x), *self.in_rows(x), *self._beside_stash(x)),
            backward=(
                *self.input_gradient(name, *x.shape),
                self.gradient(x),
                *(self.gradient(y), *self.of_gradient(*y.shape)),
                *self.weight_gradient(experts, *weight),
            ),
            weight=weight,
            demands=(self.product(x.shape[0], x.shape[-1], features, experts * self.sizes.e),),
        )
        self.adapter(name, x, y, self.gradient(y), weight)
        return y

    def _attends(
        self, heads: int, widths: int, keys_and_values: int, window: int | None
    ) -> tuple[Demand, ...]:
        """The kernel over the whole sequence, and what context-parallel ranks exchange for it."""
        sizes = self.sizes
        unfused = self.run.step.attention_backend == "unfused"
        score_bytes = sizes.bytes if unfused else 0
        kernel = Attention(sizes.n, heads, widths, sizes.s * sizes.c, window, score_bytes)
        if sizes.c == 1:
            return (kernel,)
        if self.run.cp_comm_type in ("a2a", "a2a+p2p"):
            sent = sizes.bytes * sizes.n * (heads * widths + keys_and_values)
            return kernel, Exchange("cp", "all_to_all", sent, sent)
        whole = sizes.bytes * sizes.n * sizes.c * keys_and_values
        gathers = self.run.cp_comm_type == "all_gather"
        return kernel, Exchange("cp", "gather" if gathers else "ring", whole, 2 * whole)

    def _scores(self, heads: int, *, sinks: bool) -> Kept:
        """A column of `sinks` makes a copy of the scores; a kernel takes them as an offset."""
        sizes = self.sizes
        shape = (sizes.b, heads, sizes.s, sizes.s * sizes.c)
        kept = 2 * sizes.bytes + BYTE if self.run.step.attention_dropout else sizes.bytes
        return (
            (self.tensor("scores", *shape, width=kept, dropped_by=KEPT_BY_CORE),),
            (self.tensor("scores before softmax", *(2,) * sinks, *shape),),
            (self.tensor("gradients of the scores, before and behind softmax", 2, *shape),),
        )

    def _kernel(self, heads: int, out: Tensor, keys_and_values: int) -> Kept:
        sizes, run = self.sizes, self.run
        logsumexp = self.tensor("logsumexp", heads, sizes.n, width=FP32, dropped_by=(CORE,))
        borrows = []
        copied = sizes.b > 1 and self.run.step.attention_backend == "flash"
        if copied or (sizes.c > 1 and run.cp_comm_type == "a2a+p2p"):
            name = "output in the kernel's layout"
            saves = (self.tensor(name, *out.shape, dropped_by=KEPT_BY_CORE), logsumexp)
        else:
            saves = (self._attended(out, is_output=True), logsumexp)
        if run.cp_ring > 1:
            name = "outputs, keys and values of every step of the ring"
            width = out.shape[-1] + keys_and_values
            borrows.append(self.tensor(name, run.cp_ring, sizes.n, width))
        return saves, tuple(borrows), ()

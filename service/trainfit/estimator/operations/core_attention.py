"""Softmax attention of megatron-core with TransformerEngine, over all context-parallel ranks.

Symbols: estimator.legend. Sources: TransformerEngine's attention/dot_product_attention
(backends.py, context_parallel.py); megatron/core/transformer/attention.py.
"""

from trainfit.estimator.demands import AttentionDemand, Collective, Demand
from trainfit.estimator.ledger import Tensors
from trainfit.estimator.operations.context_parallel import (
    around_ring,
    before_attention,
    behind_attention,
    of_all_ranks,
    on_stream,
)
from trainfit.estimator.operations.quantised import Quantised
from trainfit.estimator.operations.widths import BYTE, FP32
from trainfit.estimator.program import highest
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.megatron.plan import OFFLOADED

CORE = "core_attn"
"""Recomputed, all that the kernel itself keeps is made again."""
KEPT_BY_CORE = (CORE, OFFLOADED + CORE)
"""Offloaded, q, k and v leave, and what large tensors the kernel itself keeps."""
PROJECTED = (OFFLOADED + "attn_proj",)
Kept = tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]
"""What is saved, borrowed by forward and borrowed by backward."""


class CoreAttention(Quantised):
    """Runs the kernel of attention, and what stands right before and behind it."""

    def of_output(self, y: Tensor) -> Tensor:
        """The gradient of what one operation makes and another reads."""
        return self.passed_back(y, f"gradient of {y.name}")

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

    def _attends(
        self, heads: int, widths: int, keys_and_values: int, window: int | None
    ) -> tuple[Demand, ...]:
        """The kernel over the whole sequence, and what context-parallel ranks exchange for it."""
        sizes = self.sizes
        unfused = self.run.step.attention_backend == "unfused"
        score_bytes = sizes.bytes if unfused else 0
        kernel = AttentionDemand(sizes.n, heads, widths, sizes.s * sizes.c, window, score_bytes)
        if sizes.c == 1:
            return (kernel,)
        if self.run.cp_comm_type in ("a2a", "a2a+p2p"):
            sent = sizes.bytes * sizes.n * (heads * widths + keys_and_values)
            return kernel, Collective("cp", "all_to_all", sent, sent)
        whole = sizes.bytes * sizes.n * sizes.c * keys_and_values
        gathers = self.run.cp_comm_type == "all_gather"
        return kernel, Collective("cp", "gather" if gathers else "ring", whole, 2 * whole)

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

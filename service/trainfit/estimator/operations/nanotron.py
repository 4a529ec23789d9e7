"""The operations of nanotron's models: what each makes, saves and borrows.

Symbols: estimator.legend. n' are the tokens that a rank keeps between the blocks: n / t where
tp_mode is REDUCE_SCATTER. Sources: nanotron's parallel/tensor_parallel (functional.py,
distributed_differentiable_primitives.py), nn/layer_norm.py, optim/gradient_accumulator.py;
flash-attn's ops/triton/layer_norm.py and flash_attn_interface.py.
"""

from trainfit.estimator.demands import AttentionDemand, Product
from trainfit.estimator.ledger import OperationKind, Tensors
from trainfit.estimator.legend import Legend
from trainfit.estimator.operations.widths import FP32
from trainfit.estimator.program import Program
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.nanotron.plan import NanotronPlan


class NanotronProgram(Program):
    """Runs programs as nanotron does."""

    def __init__(self, sizes: Legend, plan: NanotronPlan) -> None:
        super().__init__(sizes)
        self.plan = plan
        self.scatters = sizes.n_gathered > 0

    def rms_norm(self, name: str, x: Tensor) -> Tensor:
        """TritonRMSNorm keeps its input and the root mean square of every row; who reads its output
        keeps that.
        """
        y = self.tensor("norm output", *x.shape)
        self.operation(
            name,
            makes=(y,),
            saves=(x, self.tensor("root mean square", *x.shape[:-1], width=FP32)),
            backward=(self.gradient(x), *self.added(x.shape[-1])),
            leaves=self.left(x.shape[-1]),
            kind=OperationKind.NORM,
        )
        return y

    def column_linear(self, name: str, x: Tensor, features: int, output: str) -> Tensor:
        """A product [n, features] with a matrix whose rows ranks share out. Where they share out
        the sequence, its input is gathered into a buffer that stays, for either direction, or
        (tp_recompute_allgather off) into a tensor that is kept.
        """
        sizes, inputs = self.sizes, x.shape[-1]
        y = self.tensor(output, sizes.n, features)
        kept = x
        if self.scatters and not self.plan.framework.tp_recompute_allgather:
            kept = self.tensor("gathered input", sizes.n_gathered, inputs)
        own = (self.gradient(x),) if self.scatters else ()
        self.operation(
            name,
            makes=(y,),
            saves=(kept,),
            backward=(
                self.gradient(y),
                self.tensor("input gradient", sizes.n, inputs),
                *own,
                *self.added(features, inputs),
            ),
            leaves=self.left(features, inputs),
            weight=(features, inputs),
            kind=OperationKind.PRODUCT,
            demands=(Product(sizes.n, inputs, features), *self.into_columns(inputs)),
        )
        return y

    def row_linear(self, name: str, x: Tensor, features: int) -> None:
        """A product [n, features] with a matrix whose columns ranks share out; ranks' products are
        added up in place, or into a share [n', features] each. The gradient of that is gathered
        again: into a buffer that stays where communication is asynchronous.
        """
        sizes, inputs = self.sizes, x.shape[-1]
        asynchronous = self.plan.framework.tp_linear_async_communication
        y = self.tensor("output before its reduction", sizes.n, features)
        share = (self.tensor("output", sizes.n_shard, features),) if self.scatters else ()
        gathered = self.tensor("gathered gradient", sizes.n_gathered, features)
        self.operation(
            name,
            saves=(x,),
            borrows=(y, *share),
            backward=(
                *(() if asynchronous else (gathered,)),
                self.tensor("input gradient", sizes.n, inputs),
                *self.added(features, inputs),
            ),
            leaves=self.left(features, inputs),
            weight=(features, inputs),
            kind=OperationKind.PRODUCT,
            demands=(Product(sizes.n, inputs, features), *self.out_of_rows(features)),
        )

    def flash_attention(self, q: Tensor, kv: Tensor) -> Tensor:
        """flash_attn_varlen_func of q [n, a / t, d] and kv [n, 2, g / t, d]: keeps its output and
        the logsumexp of every head and query; backward adds the gradient of q up in fp32.
        """
        n, heads, d = q.shape
        out = self.tensor("attention output", n, heads * d)
        row = self.tensor("logsumexp", heads, n, width=FP32)
        self.operation(
            "core_attention",
            makes=(out,),
            saves=(q, kv, out, row),
            backward=(
                *map(self.gradient, (q, kv, out)),
                self.tensor("gradient of q in fp32", n, heads, d, width=FP32),
                self.tensor("sums of output and its gradient", heads, n, width=FP32),
            ),
            kind=OperationKind.ATTENTION,
            demands=(AttentionDemand(n, heads, 2 * d, self.sizes.s),),
        )
        return out

    def left(self, *shape: int) -> Tensors:
        """The gradient of a weight, in bf16 in either case: left on the weight until backward of
        the micro-batch has ended, when it is added to the one in fp32; or, without that, until the
        step. Source: FP32GradientAccumulator.backward.
        """
        return () if self._adds_in_place else (self.tensor("weight gradient", *shape),)

    def added(self, *shape: int) -> Tensors:
        """A gradient that is added to the one of earlier micro-batches at once."""
        return (self.tensor("weight gradient", *shape),) if self._adds_in_place else ()

    @property
    def _adds_in_place(self) -> bool:
        return not self.plan.step.accumulates_in_fp32 and self.plan.batch.num_microbatches > 1

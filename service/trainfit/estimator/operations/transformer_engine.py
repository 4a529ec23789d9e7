"""The operations of megatron-core with TransformerEngine: what each makes, saves and borrows.

Symbols: estimator.legend. Sources: TransformerEngine's pytorch/module (layernorm_linear.py,
linear.py, grouped_linear.py, rmsnorm.py); megatron/core/fusions (fused_bias_swiglu.py,
fused_bias_gelu.py) and tensor_parallel/layers.py.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Literal, Self

from trainfit.estimator.demands import Product
from trainfit.estimator.ledger import Tensors
from trainfit.estimator.legend import Legend
from trainfit.estimator.operations.core_attention import CoreAttention
from trainfit.estimator.operations.widths import FP32
from trainfit.estimator.program import highest
from trainfit.estimator.run import MegatronStep
from trainfit.estimator.tensors import Tensor

INPUT_GRADIENT = "input gradient"
"""What the gradient of a norm's output is called."""
NormKind = Literal["rmsnorm", "layernorm"]


class TransformerEngine(CoreAttention):
    """Runs programs as megatron-core does."""

    def __init__(self, sizes: Legend, run: MegatronStep) -> None:
        super().__init__(sizes, run)
        self._accumulates_apart = not run.framework.gradient_accumulation_fusion

    def wide(self) -> Self:
        """The program where linears and attention read what is as wide as activations are."""
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

    def _beside_stash(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The tensors among these in whose place a stash is kept."""
        return tuple([each for each in tensors if each in self._stashed])

    def weight_gradient(self, *shape: int) -> tuple[Tensor, ...]:
        """A gradient of its own, where it is not added to the main gradient within the GEMM."""
        apart = self._accumulates_apart and not self.is_frozen
        return (self.tensor("weight gradient", *shape),) if apart else ()

    def activation(
        self,
        name: str,
        x: Tensor,
        y: Tensor,
        *weights: Tensor,
        gated: bool,
        clamped: bool,
        one: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """A fused activation keeps its input, and what its output is multiplied with. A gate that
        no kernel fuses keeps both its factors as well, since the linear one is a copy with its
        offset added, and the half that was clamped for the activation. Of several in turn gradients
        are there of `one`, given by what it reads and makes.
        Source: megatron/core/transformer/mlp.py and moe/experts.py (glu).
        """
        read, made = one or (x, y)
        saves = [self._stashed.get(x, x), *weights]
        backward = [self.of_output(made), self.of_output(read), *self._beside_stash(x)]
        if gated and not self.run.framework.bias_activation_fusion:
            factors = self.tensor("factors of the gate", 2, *y.shape, dropped_by=y.dropped_by)
            saves.append(factors)
            backward.append(self.tensor("gradient of the factors", 2, *made.shape))
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

    def grouped_linear(self, name: str, x: Tensor, y: Tensor, experts: int) -> Tensor:
        """Products of rows [T_r, in] with the matrices of their `experts`."""
        features, weight = y.shape[-1], (y.shape[-1], x.shape[-1])
        self.operation(
            name,
            makes=(y,),
            saves=self.reads(x),
            borrows=(*self.waits_for(x), *self.in_rows(x), *self._beside_stash(x)),
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

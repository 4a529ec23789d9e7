"""The operations of PyTorch's modules: what each makes, saves and borrows.

Symbols: estimator.legend; r the rank of an adapter. A product keeps its input for the gradient of
its weight: where nothing of it is trained, it keeps nothing. Under autocast it keeps a copy of its
weight in the narrow type, and of an input that is wider. Sources: torch/csrc/autograd
(derivatives.yaml: mm, addmm, mul, sigmoid, softplus), aten/src/ATen/autocast_mode.cpp,
peft/tuners/lora (layer.py, bnb.py), torchao/float8/float8_linear.py and prototype/moe_training
(mxfp8_linear.py, nvfp4_training/nvfp4_linear.py).
"""

from dataclasses import dataclass, field
from fractions import Fraction

from trainfit.estimator.demands import Collective, Demand, Product
from trainfit.estimator.ledger import OperationKind, Tensors
from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.operations.activations import Activations
from trainfit.estimator.operations.decomposed import (
    Gradients,
    decompose,
    gradient_of_base,
)
from trainfit.estimator.operations.widths import BYTE, FP32
from trainfit.estimator.program import highest
from trainfit.estimator.run import PytorchWay
from trainfit.estimator.tensors import Role, Tensor
from trainfit.resolve.pytorch.plan import Adapters, NarrowProducts


@dataclass(slots=True)
class Parts:
    """What an operation is found to take, part by part: what it borrows throughout, and what in one
    of its `moments` after the other.
    """

    saves: list[Tensor] = field(default_factory=list)
    borrows: list[Tensor] = field(default_factory=list)
    moments: list[Tensors] = field(default_factory=list)
    backward: list[Tensor] = field(default_factory=list)
    leaves: list[Tensor] = field(default_factory=list)
    later: list[Tensor] = field(default_factory=list)
    """What adapters save behind the norms of a matrix's rows."""
    demands: list[Demand] = field(default_factory=list)


class Modules(Activations):
    """Runs programs as modules of PyTorch do, of which some are trained and some are not."""

    def __init__(self, sizes: PytorchLegend, way: PytorchWay) -> None:
        super().__init__(sizes, way)
        self.by = way.implementation
        self.cached = 0
        """Bytes that the forward of the whole model holds beside what is saved."""
        self._gathered: set[Tensor] = set()
        self._kept: set[Tensor] = set()
        self._by_columns: dict[Tensor, Tensor] = {}

    def gathered(self, x: Tensor) -> Tensor:
        """[n, h] of the [n', h] that tensor-parallel ranks have each."""
        if not self.sizes.gathers:
            return x
        y = self.tensor("gathered input", self.sizes.n, x.shape[-1], width=x.width)
        self.operation("all_gather", offers=(y,), demands=self._tensor_parallel(x))
        self._gathered.add(y)
        return y

    def cache(self, x: Tensor) -> None:
        """Held until the forward of the whole model returns."""
        self.cached += x.bytes

    def receives(self, name: str, x: Tensor) -> None:
        """What another stretch made is saved here, once for all that read it."""
        if x not in self._offered:
            self.operation(name, offers=(x,), reads=(x,))

    def keeps(self, x: Tensor) -> bool:
        """Whether any product keeps this for the gradient of its weight, or a copy of it."""
        return x in self._kept

    def shared(self, x: Tensor) -> Tensors:
        """What an operation keeps of its input as it is, and nothing of a wider one."""
        self._kept.add(x)
        return () if x.width > self.sizes.bytes else (x,)

    def keep(self, x: Tensor, rows: int) -> Tensor:
        """What a product keeps of its input: that, or autocast's narrow copy of the rows it reads,
        one for each product.
        """
        self._kept.add(x)
        if x.width <= self.sizes.bytes:
            return x
        return self.tensor(f"{x.name} in the narrow type", rows, x.shape[-1])

    def narrowed(self, x: Tensor) -> Tensor:
        """What autocast makes of a tensor for whoever reads it in the narrow type."""
        if x.width <= self.sizes.bytes:
            return x
        return self.tensor(f"{x.name} in the narrow type", *x.shape)

    def linear(
        self,
        module: str,
        x: Tensor,
        features: int,
        *,
        bias: bool = False,
        joins: bool = False,
        rows: int = 0,
        beside: Parts | None = None,
    ) -> Tensor:
        """[n, features] from x [n, in], or from its last `rows`; `module` is the name that adapters
        are targeted by. It `joins` where the gradient of its input is added to that of another
        product, and takes what else happens to its output `beside`.
        """
        width = self.sizes.product_bytes(module)
        y = self.tensor(f"{module}'s output", rows or x.shape[0], features, width=width)
        parts = beside or Parts()
        parts.backward.append(self.passed_back(y, "output gradient"))
        return self.product(module, x, y, parts, bias=bias, joins=joins)

    def linear_out(self, module: str, x: Tensor, features: int, *, bias: bool = False) -> Tensor:
        """The product that ends a block: its output goes to the residual stream, whose gradient
        comes back as it is, or gathered from tensor-parallel ranks and put in order.
        """
        sizes, parts = self.sizes, Parts()
        y = self.tensor(f"{module}'s output", x.shape[0], features)
        if sizes.gathers or sizes.residual_bytes != sizes.bytes:
            parts.backward.append(self.tensor("output gradient", *y.shape))
        if sizes.gathers:
            parts.backward.append(self.tensor("output gradient, ordered by rank", *y.shape))
        parts.demands += self.added_up(features)
        return self.product(module, x, y, parts, bias=bias, joins=False)

    def product(
        self,
        module: str,
        x: Tensor,
        y: Tensor,
        parts: Parts,
        *,
        bias: bool,
        joins: bool,
        fused: bool = False,
    ) -> Tensor:
        """y [n, out] from x [n, in], which takes `parts` besides. One that is `fused` with its
        adapter has all that it keeps of its input among them.
        """
        sizes, adapters = self.sizes, self.sizes.adapters
        (rows, features), inputs = y.shape, x.shape[-1]
        trained = sizes.trains(module)
        gradients = 2 if joins else 1
        if x in self._gathered:
            name = "input gradient, ordered by rank"
            parts.backward.append(self.tensor(name, rows, inputs))
        self.weight(module, (features, inputs), parts, trained=trained)
        if bias and trained:
            gradient = self.tensor("bias gradient", features, width=sizes.gradient_bytes)
            parts.leaves.append(gradient)
        narrow = sizes.narrows_product(module)
        if narrow is not None:
            self._copies(x, (rows, inputs), features, parts, narrow)
        adapted = adapters is not None and not (trained or fused) and sizes.adapts(module)
        above: Tensors = ()
        of_base: Tensors = ()
        made = y
        if adapters is not None and adapted and adapters.decomposed:
            made = self.tensor("product without the adapter", *y.shape)
            above = tuple([each for each in parts.backward if each.shape == y.shape])
            parts.backward = [each for each in parts.backward if each not in above]
            of_base = gradient_of_base(self, sizes, made, above)
            parts.backward += of_base
        if adapters is not None and adapted:
            gradients -= self._adapter(module, x, y, adapters, parts)
        own = [self.tensor("input gradient", rows, inputs)] * gradients
        if own and x.shape == (rows, inputs):
            own[0] = self.passed_back(x, "input gradient")
        parts.backward += own
        kept: Tensors = ()
        if not fused and self.reads(module, x):
            kept = (self._columns(x, rows, narrow) or self.keep(x, rows),)
        self.operation(
            module,
            reads=(x,),
            saves=parts.saves,
            for_weight=kept,
            borrows=highest(*parts.moments, ()).beside(*parts.borrows),
            backward=tuple(parts.backward),
            leaves=tuple(parts.leaves),
            weight=(features, inputs),
            output=self.narrowed(made),
            kind=OperationKind.PRODUCT if narrow is None or narrow.recognised else None,
            bias=bias,
            adapted=sizes.adapts(module),
            demands=(self._multiplies(module, rows, inputs, features), *parts.demands),
        )
        if made is not y:
            decompose(self, sizes, module, x, made, y, Gradients(above, of_base), parts.later)
        return y

    def reads(self, module: str, x: Tensor) -> bool:
        """Whether a module reads its input again, as it is, for the gradient of a weight."""
        return self.sizes.trains(module) or self.sizes.shares_input(module, x.width)

    def _multiplies(self, module: str, rows: int, inputs: int, features: int) -> Product:
        """Backward makes the gradient of the input, and that of a weight that is trained."""
        gradients = 1 + self.sizes.trains(module)
        narrow = self.sizes.narrows_product(module) is not None
        return Product(rows, inputs, features, 0, gradients, narrow)

    def added_up(self, features: int) -> tuple[Collective, ...]:
        """What tensor-parallel ranks exchange behind a block, [n, features]: they share out the
        sequence, or have the gradient of the block's input to add up as well.
        """
        sizes = self.sizes
        whole = sizes.bytes * sizes.n * features
        forward, backward = (whole, whole) if sizes.gathers else (2 * whole, 2 * whole)
        return (Collective("tp", "gather", forward, backward),) * (sizes.t > 1)

    def _tensor_parallel(self, x: Tensor) -> tuple[Collective, ...]:
        """What is gathered before a block, whose gradient is scattered."""
        whole = self.sizes.bytes * self.sizes.n * x.shape[-1]
        return (Collective("tp", "gather", whole, whole),)

    def of_each(
        self,
        name: str,
        count: int,
        *shape: int,
        width: int | Fraction = 0,
        role: Role | None = None,
    ) -> Tensor:
        """A tensor that so many experts have which are alike, each its own."""
        shape = (count, *shape) if count > 1 else shape
        return self.tensor(name, *shape, width=width, role=role, storages=count)

    def weight(
        self, module: str, shape: tuple[int, int], parts: Parts, *, trained: bool, count: int = 1
    ) -> None:
        """A weight [out, in] with its gradient, its copy by autocast, or what it is stored as; or
        so many that are read one after the other.
        """
        sizes, quantised = self.sizes, self.sizes.is_quantised(module)
        narrows = sizes.narrows_head if module == "lm_head" else sizes.narrows
        if narrows and not quantised:
            role = Role.CACHED_BY_AUTOCAST if trained else None
            parts.saves.append(self.of_each("weight in the narrow type", count, *shape, role=role))
        if trained:
            width = sizes.gradient_bytes
            parts.leaves.append(self.of_each("weight gradient", count, *shape, width=width))
            if narrows:
                name = "weight gradient in the narrow type"
                parts.backward.append(self.tensor(name, *shape))
        elif quantised:
            weight = self.tensor("weight, dequantised", *shape)
            parts.borrows.append(weight)
            parts.backward.append(weight)

    def _copies(
        self,
        x: Tensor,
        shape: tuple[int, int],
        features: int,
        parts: Parts,
        narrow: NarrowProducts,
    ) -> None:
        """Narrow copies of what a product reads: of its input and its weight, unless that is
        gathered so, and in backward of both again, where they are not kept, and of the gradient of
        its output.
        """
        (rows, inputs), width = shape, narrow.copy_bytes
        read = self.tensor("narrow input", rows, inputs, width=width)
        weight = self.tensor("narrow weight", features, inputs, width=width)
        parts.borrows.append(read)
        if narrow.keeps_columns:
            parts.borrows += () if self.is_kept_elsewhere(x) else (x,)
        else:
            parts.backward.append(read)
        if not self.sizes.float8_weights:
            parts.borrows.append(weight)
            kept = narrow.keeps_weight
            (parts.saves if kept else parts.backward).append(
                self.tensor("narrow weight, by columns", features, inputs, width=width)
            )
        casts = narrow.casts
        parts.backward.append(
            self.tensor("narrow output gradient", casts, rows, features, width=width)
        )

    def _columns(self, x: Tensor, rows: int, narrow: NarrowProducts | None) -> Tensor | None:
        """The narrow copy that is kept in place of an input."""
        if narrow is None or not narrow.keeps_columns:
            return None
        self._kept.add(x)
        copy = self.tensor("narrow input, by columns", rows, x.shape[-1], width=narrow.copy_bytes)
        return self._by_columns.setdefault(x, copy) if narrow.shares_columns else copy

    def _adapter(self, module: str, x: Tensor, y: Tensor, adapters: Adapters, parts: Parts) -> int:
        """B(A(x)) beside the product. It keeps x in its own type, where a dropout comes first what
        that leaves and its mask, and A's output; B's output is scaled and added. Answers how many
        gradients of a copy are gone before that of the product's own input is there.
        """
        sizes, rank, width = self.sizes, adapters.rank, adapters.computed_bytes
        (rows, features), inputs = y.shape, x.shape[-1]
        copied = not sizes.shares_input(module, x.width)
        made, scaled, wide_sum = (
            self.tensor(name, rows, features, width=width)
            for name in ("adapter's output", "scaled output", "sum in the adapter's type")
        )
        product = self.tensor("product without the adapter", rows, features)
        is_wide = width > y.width
        steps = [(product, made), (product, made, scaled)]
        steps += [(product, scaled, wide_sum), (wide_sum,)] if is_wide else [(product, scaled)]
        own = self.tensor("gradient in the adapter's type", rows, inputs, width=width)
        parts.backward += [own, self.tensor("the same of its output", rows, features, width=width)]
        if sizes.autocast and adapters.element_bytes > sizes.bytes:
            wide = self.tensor("input as wide", rows, inputs, width=adapters.element_bytes)
            narrow = x.width < adapters.element_bytes and not sizes.is_quantised(module)
            role, name = Role.CACHED_BY_AUTOCAST, "adapter in the narrow type"
            parts.saves.append(self.tensor(name, rank, inputs + features, role=role))
            parts.borrows += [wide] * narrow
            parts.backward += [wide] * bool(narrow or adapters.dropout)
            dropped = self.tensor("what a dropout leaves", rows, inputs, width=wide.width)
            steps[:0] = [(product, dropped)] * adapters.dropout
        if copied:
            name = "input in the adapter's type"
            behind = parts.later if adapters.decomposed and sizes.autocast else parts.saves
            behind.append(self.tensor(name, rows, inputs, width=width))
            if not self.is_kept_elsewhere(x):
                name = "input of which a copy is kept"
                parts.borrows.append(
                    Tensor(name, (rows, inputs), sizes.bytes, self._modules, of=x.of or x)
                )
        if adapters.dropout:
            parts.saves.append(self.tensor("dropout mask", rows, inputs, width=BYTE))
        behind = parts.later if adapters.decomposed else parts.saves
        behind.append(self.tensor("low-rank product", rows, rank, width=width))
        if adapters.decomposed:
            parts.backward += [own] * adapters.dropout
        else:
            parts.moments += steps
        stored = adapters.element_bytes
        name = "adapter's gradient"
        parts.leaves.append(self.tensor(name, rank, inputs, width=stored))
        parts.leaves.append(self.tensor(name, rank, features, width=stored))
        return int(copied)

    def scaled_by_sinks(self, out: Tensor, heads: int) -> Tensor:
        """Attention's output [n, a d_v / t] by what sinks leave of each head's, where the kernel
        takes none.
        """
        if not self.way.step.scales_by_sinks:
            return out
        scaled = self.tensor("scaled output", *out.shape)
        scale = self.tensor("scale of every head", out.shape[0], heads)
        backward = (self.gradient(out), self.gradient(scaled))
        self.operation("sink_scale", saves=(out, scale), borrows=(scaled,), backward=backward)
        return self.tensor("scaled output, tokens before heads", *out.shape)

    def gate(self, x: Tensor, features: int, module: str) -> Tensor:
        """x [n, a d_v / t] times a gate for each head or feature, which `module` projects: both
        factors are kept. A sigmoid's gradient comes from what it made, a softplus's from what it
        read in fp32. Sources: transformers' modeling_step3p7.py, modeling_lfm3.py,
        modeling_laguna.py.
        """
        rows, width = x.shape
        saves = [x, self.tensor("gates", rows, features)]
        if self.by.gate_activation == "softplus":
            saves.append(self.tensor("scores of the gates in fp32", rows, features, width=FP32))
        name = "gradients of product, output and gates"
        self.operation("gate", saves=saves, backward=(self.several(name, 3, rows, width),))
        return self.tensor("gated", rows, width, width=self.sizes.product_bytes(module))

"""Copies in fp8 or fp4 that TransformerEngine's linears make of what they multiply.

Symbols: estimator.legend. A copy in the order of rows is read by the product that it is made for,
one in that of columns by the product for the gradient of the weight. GPUs of compute capability 10
and 11 read per-tensor copies either way. Sources: TransformerEngine's pytorch/module
(layernorm_linear.py, linear.py and grouped_linear.py; base.py: grad_output_preprocess),
distributed.py (_all_gather_fp8) and csrc/extensions/normalization.cpp.
"""

from collections.abc import Iterable
from fractions import Fraction

from trainfit.estimator.ledger import Tensors
from trainfit.estimator.legend import Legend
from trainfit.estimator.operations.low_rank import Adapted
from trainfit.estimator.run import MegatronStep
from trainfit.estimator.tensors import Tensor

PER_TENSOR = ("delayed", "tensorwise")
"""Recipes whose copies can be gathered in the order of rows alone."""


class Quantised(Adapted):
    """Makes copies of what linears read, where they multiply in fp8 or fp4."""

    def __init__(self, sizes: Legend, run: MegatronStep) -> None:
        frozen = "language_model" in run.step.frozen
        super().__init__(sizes, run.step.adapters, frozen=frozen)
        self.run = run
        self._quantised: dict[Tensor, Tensor] = {}
        self._stashed: dict[Tensor, Tensor] = {}

    @property
    def _copies(self) -> int:
        """The copies of what both products read."""
        step = self.run.step
        if step.narrow_recipe is None or step.states.narrow is None:
            return 0
        return step.states.narrow.copies

    @property
    def _by_tensor(self) -> bool:
        return self.run.step.narrow_recipe in PER_TENSOR

    def reads(self, x: Tensor) -> Iterable[Tensor]:
        """What a linear saves of its input: that, or a copy in the order of columns, one for all
        who read it. Frozen it saves nothing.
        """
        if self.is_frozen:
            return ()
        x = self._stashed.get(x, x)
        width = self.sizes.linear_input_bytes
        if width in (self.sizes.bytes, x.width):
            return (x,)
        if x not in self._quantised:
            copy = Tensor(f"{x.name} in fp8", x.shape, width, x.dropped_by, stream=self._stream)
            self._quantised[x] = copy
        return (self._quantised[x],)

    def stashes(self, x: Tensor, rows: int) -> None:
        """Keeps so many of the rows `x`, which are copied to a stash."""
        shape = (rows, *x.shape[1:])
        self._stashed[x] = Tensor(f"stash of {x.name}", shape, x.width, x.dropped_by)

    def waits_for(self, x: Tensor) -> Tensors:
        """What a linear reads of what none before it keeps, if it keeps at most a copy itself."""
        return (x,) if (self.is_frozen or self._copies) and not self.saves(x) else ()

    def in_rows(self, x: Tensor, *, gathers: bool = False) -> Tensors:
        """The copy of an input that only the forward product reads. What a linear `gathers` of a
        per-tensor copy is that.
        """
        if self._copies < 2 or (gathers and self._by_tensor):
            return ()
        return (self._narrow("input in fp8, by rows", *x.shape),)

    def gathered_input(self, rows: int, features: int) -> Tensor:
        """That of all tensor-parallel ranks."""
        return self.tensor("gathered input", rows, features, width=self._width)

    def turned_input(self, gathered: Tensor) -> Tensors:
        """A copy in the order of columns, of an input that could be gathered in that of rows."""
        turns = self._copies == 2 and self._by_tensor
        return (self._narrow("gathered input, by columns", *gathered.shape),) * turns

    def gathered_gradient(self, own: int, rows: int, features: int) -> Tensors:
        """The gradient of all tensor-parallel ranks, of which a rank has `own` rows; or its copies,
        and those of these rows that they are gathered from.
        """
        if not self._copies:
            return (self.tensor("gathered gradient", rows, features),)
        own_copies = min(self._copies, 1) if self._by_tensor else self._copies
        sent = self._narrow("gradient in fp8", own_copies, own, features)
        return (sent, self._narrow("gathered gradient in fp8", self._copies, rows, features))

    def of_gradient(self, *shape: int) -> Tensors:
        """Copies of the gradient of an output."""
        return (self._narrow("gradient in fp8", self._copies, *shape),) if self._copies else ()

    def before_quantised(self, *shape: int) -> Tensors:
        """The output of a norm before it is quantised, which a kernel does at once for delayed
        scaling alone: other scales are those of what is there.
        """
        apart = self._copies and self.run.step.narrow_recipe != "delayed"
        return (self.tensor("norm output before it is quantised", *shape),) if apart else ()

    @property
    def _width(self) -> Fraction | int:
        return self.sizes.linear_input_bytes if self._copies else self.sizes.bytes

    def _narrow(self, name: str, *shape: int) -> Tensor:
        return self.tensor(name, *shape, width=self.sizes.linear_input_bytes)

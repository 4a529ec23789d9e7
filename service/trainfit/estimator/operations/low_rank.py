"""Low-rank adapters beside the frozen linears of megatron-core.

Symbols: estimator.legend; r rank of the adapters. Source: Megatron-Bridge's peft/lora_layers.py
(LoRALinear), peft/utils.py (ParallelLinearAdapter); TransformerEngine's pytorch/module (linear.py,
layernorm_linear.py, grouped_linear.py), which keep no input of a weight that is not trained;
megatron/core/tensor_parallel/layers.py (linear_with_frozen_weight).
"""

from trainfit.estimator.demands import Product
from trainfit.estimator.ledger import OperationKind, Tensors
from trainfit.estimator.legend import Legend
from trainfit.estimator.operations.widths import BYTE
from trainfit.estimator.program import Program, highest
from trainfit.estimator.segment import Table
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.megatron.plan import LinearAdapters

CALLED = {
    f"{part}_{name}": f"linear_{name}" for part in ("shared", "experts") for name in ("fc1", "fc2")
}
"""What programs call a linear -> what its module is called."""


def adapter_parameters(table: Table) -> tuple[int, ...]:
    """The parameters of each matrix of the adapters of a stretch on one rank."""
    flat = [sums for group in table for sums in group]
    return tuple(
        [sums.outputs * sums.inputs for sums in flat if sums.kind is OperationKind.ADAPTER]
    )


class Adapted(Program):
    """Runs adapters beside the linears that have one; all other weights are frozen then, as they
    may be without adapters, where gradients go on to what is trained before them.
    """

    def __init__(
        self, sizes: Legend, adapters: LinearAdapters | None, *, frozen: bool = False
    ) -> None:
        super().__init__(sizes)
        self._adapters = adapters
        self._frozen = frozen

    @property
    def is_frozen(self) -> bool:
        """Whether the weights of linears and norms are not trained."""
        return self._frozen or self._adapters is not None

    def waits_for(self, x: Tensor) -> Tensors:
        """What a frozen linear reads of what none before it keeps."""
        return (x,) if self.is_frozen and not self.saves(x) else ()

    def input_gradient(self, name: str, rows: int, inputs: int) -> Tensors:
        """What the backward of an adapter, which runs before that of its linear, has made of the
        gradient of their input.
        """
        made = self.tensor("adapter's input gradient", rows, inputs)
        return (made,) if self._adapts(name) else ()

    def adapter(
        self,
        name: str,
        x: Tensor,
        y: Tensor,
        of_y: Tensor,
        weight: tuple[int, int],
        ranks: tuple[int, int] = (1, 1),
    ) -> None:
        """Adds to y = x W, with W the `weight` of that shape on this rank, the scaled product of x
        with matrices [r, in] and [out, r], whose rows so many `ranks` share out besides. The first
        keeps x [n, in] as it is, or behind its dropout with that's mask, and the second what the
        first has made of it [n, r], which is gathered from all ranks. Scaling and adding make a
        tensor each.
        """
        if self._adapters is None or not self._adapts(name):
            return
        (r,), (outputs, inputs) = self.named(r=self._adapters.rank), weight
        rows = x.shape[0]
        kept = x if x.width == self.sizes.bytes else self._wide(x, x.name)
        dropped = (self.tensor("dropout mask", *x.shape, width=BYTE),) * self._adapters.dropout
        read = self._wide(x, f"{x.name} behind dropout") if dropped else kept
        low = self.tensor("product of low rank", rows, r)
        of_low, of_scaled = self.gradient(low), self.tensor("scaled gradient", *y.shape)
        self.operation(
            f"{name}.adapter.linear_in",
            makes=(low,),
            saves=(read, *dropped),
            borrows=(y,) if read is kept else (y, kept),
            backward=(of_y, of_low, *self.input_gradient(name, rows, x.shape[-1])),
            weight=(r // ranks[0], inputs),
            kind=OperationKind.ADAPTER,
            demands=(Product(rows, x.shape[-1], r // ranks[0], narrow=False),),
        )
        made, scaled, added = (
            self.tensor(f"{each} of the adapter", *y.shape) for each in ("output", "scaled", "sum")
        )
        self.operation(
            f"{name}.adapter.linear_out",
            saves=(low,),
            borrows=highest((y, made, scaled), (y, scaled, added)),
            backward=(of_y, of_scaled, of_low),
            weight=(outputs // ranks[1], r),
            kind=OperationKind.ADAPTER,
            demands=(Product(rows, r, outputs // ranks[1], narrow=False),),
        )

    def _adapts(self, name: str) -> bool:
        return self._adapters is not None and CALLED.get(name, name) in self._adapters.targets

    def _wide(self, x: Tensor, name: str) -> Tensor:
        """A tensor of the shape of x that is as wide as an activation."""
        return Tensor(name, x.shape, self.sizes.bytes, x.dropped_by)

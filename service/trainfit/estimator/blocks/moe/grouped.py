"""What experts are in PyTorch, whoever runs them: grouped products, one for all experts of a rank,
and shared experts beside them.

Symbols: estimator.legend; T rows of the expert matrices, f_e and f_s widths of a routed expert and
of the shared ones. Source: torch._grouped_mm.
"""

from trainfit.estimator.demands import Collective, Product
from trainfit.estimator.ledger import Tensors
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Experts

ROUTED = "experts"
"""The module in which rows are sent, multiplied and sent back."""


def weight_gradients(step: Modules, block: Experts, h: int) -> tuple[Tensors, Tensors]:
    """Gradients of the matrices into experts [E / e, f_e, h], and out of them, where they are
    trained.
    """
    if not step.sizes.trains("experts"):
        return (), ()
    (f,) = step.named(f_e=block.ffn)
    shape = (block.experts // step.sizes.e, f // step.sizes.x, h)
    into, out = (2 if block.gated else 1, *shape), shape
    width = step.sizes.gradient_bytes
    name = "weight gradient"
    return (step.tensor(name, *into, width=width),), (step.tensor(name, *out, width=width),)


def first_product(step: Modules, block: Experts, rows: int) -> tuple[Tensor, Tensors]:
    """What one product makes of the rows: [T, 2 f_e] of gate and linear factor, and its parts."""
    (f,) = step.named(f_e=block.ffn)
    f //= step.sizes.x
    if not block.gated:
        y = step.tensor("fc1 output", rows, f)
        return y, (y,)
    y = step.tensor("fc1 output", rows, 2 * f)
    return y, (step.part(y, "gate", rows, f), step.part(y, "up", rows, f))


def multiplies(step: Modules, block: Experts, rows: int, features: int, h: int) -> Product:
    """One of the grouped products of rows with matrices between h and `features`."""
    gradients = 1 + step.sizes.trains("experts")
    return Product(rows, h, features, block.experts, gradients)


def sends(step: Modules, rows: int, h: int) -> tuple[Collective, ...]:
    """Rows to the ranks of their experts, or back."""
    whole = step.sizes.bytes * rows * h
    return (Collective("ep", "all_to_all", whole, whole),) * (step.sizes.e > 1)


def shared_experts(step: Modules, x: Tensor, block: Experts, kind: str = "") -> None:
    """A feed-forward network that every token passes, with an activation of this `kind`."""
    if block.shared_ffn is None:
        return
    (f_s,) = step.named(f_s=block.shared_ffn)
    f = f_s // step.sizes.t
    names = ("gate_proj", "up_proj") if block.shared_gated else ("up_proj",)
    factors = [step.linear(name, x, f, joins=True) for name in names]
    act = step.activation(*factors, kind=kind)
    step.linear("down_proj", act, step.sizes.h)
    if block.shared_gate:
        output = step.tensor("output and its gate", step.sizes.n, step.sizes.h)
        step.operation("shared_expert_gate", saves=(output,))

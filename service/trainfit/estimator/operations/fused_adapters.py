"""Products that run with their low-rank adapters as one function of autograd: it keeps what it
reads, and makes the low-rank products again in backward. Symbols: estimator.legend; r the rank.

Source: axolotl/kernels/lora.py (LoRA_QKV, LoRA_O, LoRA_MLP) and swiglu.py.
"""

from collections.abc import Mapping

from trainfit.estimator.operations.pytorch import Modules, Parts
from trainfit.estimator.operations.widths import BYTE
from trainfit.estimator.tensors import Tensor


def fused_products(
    step: Modules, x: Tensor, widths: Mapping[str, int], *, bias: bool
) -> list[Tensor]:
    """[n, width] of each module from x [n, in]. Backward makes one gradient of x, to which each
    product adds its own, while the gradients of all outputs are there.
    """
    read = dropped(step, x)
    outputs = [
        step.tensor(f"{module}'s output", x.shape[0], width) for module, width in widths.items()
    ]
    gradients = [step.passed_back(y, "output gradient") for y in outputs]
    for module, y in zip(widths, outputs, strict=True):
        parts = Parts(saves=[x, read], backward=[*gradients])
        fused_product(step, module, x, y, parts, bias=bias)
    return outputs


def fused_mlp(step: Modules, x: Tensor, f: int, features: int, *, bias: bool) -> None:
    """down_proj(act(gate_proj(x)) * up_proj(x)): of all that is made within, what the activation
    reads is kept. Its gradients take the place of that, and its output is made again in the place
    of its gradient, which stays until the function returns.
    """
    read = dropped(step, x)
    gate, up = (step.tensor(f"{name}'s output", x.shape[0], f) for name in ("gate_proj", "up_proj"))
    y = step.tensor("activation output", *gate.shape)
    again = step.passed_back(y, "output gradient")
    inside = [again, *[step.passed_back(each, "input gradient") for each in (gate, up)]]
    for module, made in (("gate_proj", gate), ("up_proj", up)):
        parts = Parts(saves=[x, read], backward=[*inside])
        fused_product(step, module, x, made, parts, bias=bias)
    step.operation(
        "activation",
        saves=(gate, up),
        borrows=(y,),
        backward=(again,),
        reads=(gate,),
        output=y,
    )
    out = step.tensor("down_proj's output", x.shape[0], features)
    fused_product(step, "down_proj", y, out, Parts(), bias=bias)


def dropped(step: Modules, x: Tensor) -> Tensor:
    """What a dropout leaves of x for all adapters that read it, or x where there is none."""
    step.shared(x)
    adapters = step.sizes.adapters
    if adapters is None or not adapters.dropout:
        return x
    left = step.tensor("what a dropout leaves", *x.shape, width=x.width)
    mask = step.tensor("dropout mask", *x.shape, width=BYTE)
    gradient = step.passed_back(left, "gradient of what a dropout leaves")
    backward = (gradient, step.gradient(x), step.passed_back(x, "input gradient"))
    step.operation("dropout", saves=(mask,), backward=backward, reads=(x,), output=left)
    return left


def fused_product(
    step: Modules, module: str, x: Tensor, y: Tensor, parts: Parts, *, bias: bool
) -> None:
    """y [n, out] from x [n, in]. Matrices of the adapter that are wider than x are kept in its
    type, in which backward makes their gradients.
    """
    adapters = step.sizes.adapters
    assert adapters is not None
    rank, (rows, features), inputs = adapters.rank, y.shape, x.shape[-1]
    dropped_inputs = {*parts.saves} - {x}
    parts.borrows.append(step.tensor("low-rank product", rows, rank, width=x.width))
    if step.sizes.autocast and adapters.element_bytes > x.width:
        narrow = step.tensor("adapter in the narrow type", rank, inputs + features, width=x.width)
        parts.saves.append(narrow)
        parts.backward.append(step.tensor("adapter's gradient in it", *narrow.shape))
    for left in dropped_inputs:
        parts.backward.append(step.passed_back(left, "gradient of what a dropout leaves"))
    for side in (inputs, features):
        gradient = step.tensor("adapter's gradient", rank, side, width=adapters.element_bytes)
        parts.leaves.append(gradient)
    step.product(module, x, y, parts, bias=bias, joins=False, fused=True)

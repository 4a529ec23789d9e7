"""A matrix product as torch.nn.Linear runs it, with a low-rank adapter where it has one.

Symbols: estimator.legend; r the rank of the adapter. A product keeps its input for the gradient of
its weight: where nothing of it is trained, it keeps nothing. Under autocast it keeps a copy of its
weight in the narrow type, and of an input that is wider. Sources: torch/csrc/autograd
(derivatives.yaml: mm, addmm), aten/src/ATen/autocast_mode.cpp, peft/tuners/lora/layer.py.
"""

from collections.abc import Iterator
from typing import Literal

from trainfit.estimator.ledger import Operation, Tensor, backward, forward, gradient, saved
from trainfit.estimator.legend import PytorchLegend

Input = Literal["residual", "own", "shared"]


def linear(
    module: str,
    rows: int,
    inputs: int,
    outputs: int,
    sizes: PytorchLegend,
    *,
    reads: Input,
    joins: bool = False,
) -> Operation:
    """[rows, outputs] from [rows, inputs]; `module` is the name that adapters are targeted by.

    `reads` tells who lists the input: "own" this operation, "shared" another one that keeps the
    same storage, "residual" another one too, but for the copies that autocast makes of what comes
    from the residual stream. It `joins` where the gradient of its input is added to that of
    another product.
    """
    width = sizes.bytes
    numel = inputs * outputs
    needed = sizes.needs_input(module)
    copied = reads == "residual" and sizes.autocast
    tensors = [
        saved("input", rows * inputs * width if needed and (copied or reads == "own") else 0),
        backward("output gradient", rows * outputs * width),
        backward("input gradient", rows * inputs * width * (2 if joins else 1)),
    ]
    if sizes.autocast:
        tensors.append(saved("weight in the narrow type", numel * width))
    if sizes.trains(module):
        tensors.append(gradient("weight gradient", numel * sizes.gradient_bytes))
        if sizes.autocast:
            tensors.append(backward("weight gradient in the narrow type", numel * width))
    if sizes.adapters is not None and not sizes.trains(module):
        if sizes.adapters.matrix_bytes < width:
            tensors.append(forward("weight, dequantised", numel * width))
            tensors.append(backward("weight, dequantised", numel * width))
        if sizes.adapts(module):
            tensors += _adapter(rows, inputs, outputs, sizes)
    return Operation(module, tuple(tensors), gemm=(outputs, inputs))


def adapter_parameters(inputs: int, outputs: int, rank: int) -> int:
    """A [r, inputs] and B [outputs, r]."""
    return rank * (inputs + outputs)


def _adapter(rows: int, inputs: int, outputs: int, sizes: PytorchLegend) -> Iterator[Tensor]:
    """B(A(x)) beside the product: it keeps x, in its own type, and A's output."""
    assert sizes.adapters is not None
    rank, width = sizes.adapters.rank, sizes.adapters.element_bytes
    computed = sizes.bytes if sizes.autocast else width
    wider = computed > sizes.bytes
    yield saved("input in the adapter's type", rows * inputs * computed if wider else 0)
    yield saved("low-rank product [rows, r]", rows * rank * computed)
    yield forward("adapter's output", rows * outputs * (computed + sizes.bytes))
    yield backward("gradients in the adapter's type", rows * (outputs + inputs) * computed)
    yield gradient("adapter's gradients", adapter_parameters(inputs, outputs, rank) * width)

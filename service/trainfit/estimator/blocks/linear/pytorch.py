"""A matrix product as torch.nn.Linear runs it, with a low-rank adapter where it has one.

Symbols: estimator.legend; r the rank of the adapter. A product keeps its input for the gradient of
its weight: where nothing of it is trained, it keeps nothing. Under autocast it keeps a copy of its
weight in the narrow type, and of an input that is wider. Sources: torch/csrc/autograd
(derivatives.yaml: mm, addmm), aten/src/ATen/autocast_mode.cpp, peft/tuners/lora/layer.py.
"""

from collections.abc import Iterator

from trainfit.estimator.ledger import Kind, Operation, Role, Row, backward, forward, gradient, saved
from trainfit.estimator.legend import Input, PytorchLegend


def cached_by_autocast(operation: Operation, sizes: PytorchLegend) -> int:
    """Bytes of narrow copies that autocast keeps until the model's forward returns, also of a layer
    that saves nothing: those of weights that are trained.
    """
    trained = sizes.trains(operation.name)
    kept = {Role.NARROWED_ADAPTER, Role.NARROWED_WEIGHT} if trained else {Role.NARROWED_ADAPTER}
    return sum(row.bytes for row in operation.tensors if row.role in kept)


def linear(
    module: str,
    rows: int,
    inputs: int,
    outputs: int,
    sizes: PytorchLegend,
    *,
    reads: Input,
    joins: bool = False,
    ends: bool = False,
    bias: bool = False,
) -> Operation:
    """[rows, outputs] from [rows, inputs]; `module` is the name that adapters are targeted by.

    `reads` tells who lists the input: "own" this operation, "shared" another one that keeps the
    same storage, "residual" another one too, but for the copies that autocast makes of what comes
    from the residual stream. It `joins` where the gradient of its input is added to that of
    another product, and `ends` a block where its output goes to the residual stream, whose gradient
    comes back, gathered from tensor-parallel ranks where they share out the sequence.
    """
    width, numel = sizes.bytes, inputs * outputs
    apart = not ends or sizes.gathers or sizes.residual_bytes != width
    listed = reads == "own" or (reads == "residual" and sizes.narrows)
    kept = listed and sizes.keeps_input(module, reads=reads)
    tensors = [
        saved("input", rows * inputs * width if kept else 0, Role.FOR_WEIGHT_GRADIENT),
        backward("output gradient", rows * outputs * width if apart else 0),
        backward("input gradient", rows * inputs * width * (2 if joins else 1)),
    ]
    if sizes.gathers and reads == "residual":
        tensors.append(backward("input gradient, ordered by rank", rows * inputs * width))
    if sizes.gathers and ends:
        tensors.append(backward("output gradient, ordered by rank", rows * outputs * width))
    quantised = sizes.is_quantised(module)
    if sizes.narrows and not quantised:
        tensors.append(saved("weight in the narrow type", numel * width, Role.NARROWED_WEIGHT))
    if sizes.trains(module):
        tensors.append(gradient("weight gradient", numel * sizes.gradient_bytes))
        if sizes.narrows:
            tensors.append(backward("weight gradient in the narrow type", numel * width))
    elif sizes.adapters is not None:
        if quantised:
            tensors.append(forward("weight, dequantised", numel * width))
            tensors.append(backward("weight, dequantised", numel * width))
        if sizes.adapts(module):
            tensors += _adapter(module, rows, inputs, outputs, sizes, reads)
    if sizes.float8_casts and module != "lm_head":
        tensors += _float8(rows, inputs, outputs, sizes)
    return Operation(
        module,
        tuple(tensors),
        gemm=(outputs, inputs),
        bias=bias,
        output=rows * outputs * width,
        kind=Kind.PRODUCT,
    )


def _float8(rows: int, inputs: int, outputs: int, sizes: PytorchLegend) -> Iterator[Row]:
    """Copies of a byte an element that a product reads; what is kept for backward stays wide.
    Source: torchao/float8/float8_linear.py (matmul_with_hp_or_float8_args).
    """
    weight = 0 if sizes.float8_weights else inputs * outputs
    yield forward("input and weight in fp8", rows * inputs + weight)
    casts = sizes.float8_casts * rows * outputs
    yield backward("output gradient, input and weight in fp8", casts + rows * inputs + weight)


def _adapter(
    module: str, rows: int, inputs: int, outputs: int, sizes: PytorchLegend, reads: Input
) -> Iterator[Row]:
    """B(A(x)) beside the product. It keeps x in its own type, where a dropout comes first what
    that leaves and its mask, and A's output; B's output is scaled and added. Of a copy the gradient
    is gone before that of the product's own input is there.
    """
    assert sizes.adapters is not None
    rank, width = sizes.adapters.rank, sizes.adapter_bytes
    dropout, copied = sizes.adapters.dropout, not sizes.shares_input(module, reads)
    numel = rank * (inputs + outputs)
    made, passed = 2 * rows * outputs * width, rows * inputs * sizes.bytes if copied else 0
    gradients = rows * (outputs + inputs) * width - passed
    if sizes.autocast and sizes.adapters.element_bytes > sizes.bytes:
        wide = rows * inputs * sizes.adapters.element_bytes
        widened = wide if _widens(module, sizes, reads) else 0
        yield saved("adapter in the narrow type", numel * sizes.bytes, Role.NARROWED_ADAPTER)
        made = widened + max(wide if dropout else 0, made)
        gradients += wide if widened or dropout else 0
    yield saved("input in the adapter's type", rows * inputs * width if copied else 0)
    yield saved("dropout mask", rows * inputs if dropout else 0)
    yield saved("low-rank product [rows, r]", rows * rank * width)
    yield forward("adapter's output, scaled output", made)
    yield forward("product without the adapter", rows * outputs * sizes.bytes)
    yield forward("input of which a copy is kept", passed if reads == "own" else 0)
    yield backward("gradients in the adapter's type", gradients)
    yield gradient("adapter's gradients", numel * sizes.adapters.element_bytes)


def _widens(module: str, sizes: PytorchLegend, reads: Input) -> bool:
    """Whether an input is copied to the type in which an adapter is stored before autocast narrows
    it again.
    """
    assert sizes.adapters is not None
    narrow = sizes.input_bytes(module, reads) < sizes.adapters.element_bytes
    return narrow and not sizes.is_quantised(module)

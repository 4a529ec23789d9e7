"""Normalisations as modules of PyTorch. Symbols: estimator.legend.

transformers' RMSNorms are written out: a copy of the input in fp32, its product with the root
mean square, that narrowed again, and the product of this with the weight; some scale by the weight
before they narrow. torch.nn.LayerNorm, Liger's norms and compiled ones are one kernel, which keeps
its input and statistics. Sources: transformers' modeling_llama.py, modeling_gemma.py and the like;
torch/csrc/autograd (derivatives.yaml: native_layer_norm).
"""

from trainfit.estimator.ledger import OperationKind, OperationPeak, Tensors
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.operations.widths import FP32
from trainfit.estimator.program import highest
from trainfit.estimator.tensors import Role, Tensor
from trainfit.specs.blocks import Norm

CENTRED = 3
"""fp32 tensors that the backward of a written-out norm has at once that subtracts the mean."""


def norm(
    step: Modules,
    x: Tensor,
    norm: Norm,
    name: str = "norm",
    *,
    module: str = "norm",
    kind: OperationKind | None = OperationKind.NORM,
) -> Tensor:
    """x [.., w] normalised. `module` is the name that it is frozen by. The output is kept once for
    all products that need it.
    """
    y = step.tensor("norm output", *x.shape, width=x.width, role=Role.NORM_OUTPUT)
    plain = norm.kind == "layernorm" and step.by.layer_norm != "written_out"
    trained = step.sizes.trains("norm") and step.sizes.trains(module)
    run = _one_kernel if step.sizes.fused or plain else _written_out
    saves, for_input, borrows, backward = run(step, x, y, norm, trained=trained)
    vectors = int(norm.weight) + int(norm.bias)
    shape = (vectors, norm.copies * norm.width)
    gradient = step.tensor("weight gradient", *shape, width=step.sizes.gradient_bytes)
    step.operation(
        name,
        saves=saves,
        for_input=for_input,
        offers=(y,),
        borrows=borrows,
        backward=backward,
        leaves=(gradient,) if trained else (),
        reads=(x,),
        output=y,
        kind=kind,
    )
    return y


Kept = tuple[Tensors, Tensors, Tensors | OperationPeak, OperationPeak]
"""What is saved, saved for the gradient of the input alone, and borrowed forward and backward."""


def _one_kernel(step: Modules, x: Tensor, y: Tensor, norm: Norm, *, trained: bool) -> Kept:  # noqa: ARG001
    """The input, or its copy in fp32, and its statistics: the root mean square, or mean and
    standard deviation.
    """
    statistics = (2,) if norm.kind == "layernorm" else ()
    reads = x
    if step.by.layer_norm == "kernel_in_fp32" and not step.sizes.fused and x.width < FP32:
        reads = step.tensor("norm input in fp32", *x.shape, width=FP32, role=x.role)
    kept = step.tensor("statistics", *statistics, *x.shape[:-1], width=FP32)
    return (reads, kept), (), (), highest((step.tensor("input gradient", *x.shape, width=x.width),))


def _written_out(step: Modules, x: Tensor, y: Tensor, norm: Norm, *, trained: bool) -> Kept:
    """The input in fp32 or its difference to the mean, twice, and, where there is a weight to
    train, what it is multiplied with.
    """
    centred = norm.kind == "layernorm"
    statistics = step.tensor("root mean square", *x.shape[:-1], width=FP32)
    in_full = centred or step.by.norm_scale_dtype == "fp32"
    width = FP32 if in_full else x.width
    normalised = step.tensor("normalised input", *x.shape, width=width, role=Role.NORMALISED)
    squares = step.tensor("squares", *x.shape, width=FP32)
    scaled = (normalised,) if norm.weight and trained else ()
    if centred:
        in_fp32 = step.several("difference to the mean", 2, *x.shape, width=FP32)
        gradients = step.several("gradients in fp32", CENTRED, *x.shape, width=FP32)
        return scaled, (in_fp32, statistics), (squares,), highest((gradients,))
    if x.width == FP32:
        forward = highest((squares,), scaled, saved=scaled)
        return scaled, (x, statistics), forward, _of_squares(step, x, y, x, scaled)
    in_fp32, product = [
        step.tensor(name, *x.shape, width=FP32)
        for name in ("norm input in fp32", "product in fp32")
    ]
    by_weight = (normalised,) if norm.weight else ()
    steps = (*by_weight, product) if in_full else (product, *by_weight)
    forward = highest((in_fp32, squares), (in_fp32, steps[0]), steps, saved=(in_fp32, *scaled))
    return scaled, (in_fp32, statistics), forward, _of_squares(step, x, y, in_fp32, scaled)


def _of_squares(
    step: Modules, x: Tensor, y: Tensor, in_fp32: Tensor, scaled: Tensors
) -> OperationPeak:
    """Backward of an RMSNorm. When the normalised input is gone there are at once, in fp32, the
    gradient by way of the product, and, by way of the mean square, that of the mean, the input
    raised to the first power, twice that, and their product (derivatives.yaml: pow_backward).
    """
    of_output = step.passed_back(y, "output gradient")
    of_scaled, of_input = [
        step.tensor(name, *x.shape)
        for name in ("gradient of the normalised input", "input gradient")
    ]
    wide, by_product, by_square, of_mean, power, twice, product, total = [
        step.tensor(name, *x.shape, width=FP32)
        for name in (
            "gradient in fp32",
            "gradient by the product",
            "gradient of the root mean square",
            "gradient of the mean",
            "input to the first power",
            "twice the input",
            "gradient by the mean square",
            "gradient of the input in fp32",
        )
    ]
    of_weight = step.tensor("gradient of the weight, token by token", *x.shape)
    return highest(
        (in_fp32, *scaled, of_output, of_scaled, *(of_weight,) * bool(scaled)),
        (in_fp32, of_scaled, wide),
        (in_fp32, wide, by_product, by_square),
        (in_fp32, by_product, of_mean, power, twice, product),
        (by_product, product, total),
        (total, of_input),
        saved=(in_fp32, *scaled) if in_fp32 is not x else scaled,
    )

"""Normalisations as modules of PyTorch. Symbols: estimator.legend; w the width.

transformers' RMSNorms are written out: a copy of the input in fp32, its product with the root
mean square narrowed again, and the product of that with the weight; some scale by the weight
before they narrow. torch.nn.LayerNorm, Liger's norms and compiled ones are one kernel, which keeps
its input and statistics. Sources: transformers' modeling_llama.py, modeling_gemma.py and the like;
torch/csrc/autograd (derivatives.yaml: native_layer_norm).
"""

from trainfit.estimator.ledger import Kind, Operation, Role, Row, backward, forward, gradient, saved
from trainfit.estimator.legend import PytorchLegend
from trainfit.specs.architecture import Implementation
from trainfit.specs.blocks import Norm

FP32 = 4
"""Bytes of an element in fp32, in which norms compute."""

IN_FP32 = "norm input in fp32, or its difference to the mean"
IN_FULL = {"rmsnorm": 5, "layernorm": 3}
"""fp32 tensors that a written-out norm's backward has at once: of an RMSNorm, when the normalised
input is gone, the gradient by way of the product, and, by way of the mean square, that of the mean,
the input raised to the first power, twice that, and their product (derivatives.yaml:
pow_backward)."""


def norm(
    norm: Norm,
    rows: int,
    sizes: PytorchLegend,
    *,
    by: Implementation,
    width: int,
    kept: bool,
    first: bool = True,
) -> Operation:
    """[rows, w] normalised. Elements of the input take `width` bytes; the output is kept where a
    product that reads it needs it. Of norms that read the same input the first one lists it.
    """
    size = rows * norm.width * (norm.copies if norm.kind == "layernorm" else 1)
    output = saved("norm output", size * width if kept else 0, Role.NORM_OUTPUT)
    weights = norm.width * norm.copies * (int(norm.weight) + int(norm.bias))
    trained = sizes.trains("norm")
    made = gradient("weight gradient", weights * sizes.gradient_bytes if trained else 0)
    written_out = by.layer_norm == "written_out"
    if sizes.fused or (norm.kind == "layernorm" and not written_out):
        statistics = 2 if norm.kind == "layernorm" else 1
        read = FP32 if by.layer_norm == "kernel_in_fp32" and not sizes.fused else width
        return Operation(
            "norm",
            (
                saved("norm input", size * read * first, Role.BLOCK_INPUT),
                saved("statistics [rows]", FP32 * statistics * rows * norm.copies),
                output,
                backward("input gradient", size * width),
                made,
            ),
            output=size * width,
            kind=Kind.NORM,
        )
    copies, scaled = _written_out(size, width, norm, by, trained=trained)
    gone = scaled.bytes if norm.kind == "rmsnorm" else 0
    return Operation(
        "norm",
        (
            copies,
            scaled,
            saved("root mean square [rows]", FP32 * rows, Role.FOR_INPUT_GRADIENT),
            output,
            forward("squares", size * FP32),
            backward("gradients in fp32", IN_FULL[norm.kind] * size * FP32 - gone),
            made,
        ),
        output=size * width,
        kind=Kind.NORM,
    )


def _written_out(
    size: int, width: int, norm: Norm, by: Implementation, *, trained: bool
) -> tuple[Row, Row]:
    """The input in fp32 and, where there is a weight to train, what it is multiplied with."""
    in_full = by.norm_scale_dtype == "fp32" or norm.kind == "layernorm"
    differences = 2 if norm.kind == "layernorm" else 1
    scaled = size * (FP32 if in_full else width) if norm.weight and trained else 0
    return (
        saved(IN_FP32, differences * size * FP32, Role.FOR_INPUT_GRADIENT),
        saved("normalised input", scaled, Role.NORMALISED),
    )

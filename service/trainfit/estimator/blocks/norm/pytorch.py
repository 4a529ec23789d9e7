"""Normalisations as modules of PyTorch. Symbols: estimator.legend; w the width.

transformers' RMSNorms are written out: a copy of the input in fp32, its product with the root
mean square narrowed again, and the product of that with the weight; some scale by the weight
before they narrow. torch.nn.LayerNorm, Liger's norms and compiled ones are one kernel, which keeps
its input and statistics. Sources: transformers' modeling_llama.py, modeling_gemma.py and the like;
torch/csrc/autograd (derivatives.yaml: native_layer_norm).
"""

from trainfit.estimator.ledger import Kind, Operation, Role, Row, backward, forward, gradient, saved
from trainfit.estimator.legend import PytorchLegend
from trainfit.specs.blocks import Norm

FP32 = 4
"""Bytes of an element in fp32, in which norms compute."""

SCALED_IN_FULL = frozenset(
    {
        "afmoe",
        "beam",
        "deepseek_v4",
        "diffusion_gemma",
        "flex_olmo",
        "flint",
        "gemma",
        "gemma2",
        "gemma3_text",
        "gemma3n_text",
        "gemma4_text",
        "gpt_oss",
        "helium",
        "inkling2_text",
        "minimax_m3_vl_text",
        "muse_glimmer_text",
        "muse_spark_text",
        "nemotron_h",
        "olmo2",
        "olmo3",
        "olmo_hybrid",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_next",
        "qwen4_exp_text",
        "recurrent_gemma",
        "step3p5",
        "vaultgemma",
    }
)
"""model_types whose RMSNorm multiplies with its weight in fp32."""


LAYER_NORM_IN_FULL = frozenset({"olmo"})
"""model_types whose LayerNorm reads a copy of its input in fp32."""

LAYER_NORM_WRITTEN_OUT = frozenset({"cohere", "cohere2"})
"""model_types whose LayerNorm is written out: the difference to the mean twice, and the normalised
input, in fp32."""

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
    model_type: str,
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
    written_out = model_type in LAYER_NORM_WRITTEN_OUT
    if sizes.fused or (norm.kind == "layernorm" and not written_out):
        statistics = 2 if norm.kind == "layernorm" else 1
        read = FP32 if model_type in LAYER_NORM_IN_FULL and not sizes.fused else width
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
    copies, scaled = _written_out(size, width, norm, model_type, trained=trained)
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
    size: int, width: int, norm: Norm, model_type: str, *, trained: bool
) -> tuple[Row, Row]:
    """The input in fp32 and, where there is a weight to train, what it is multiplied with."""
    in_full = model_type in SCALED_IN_FULL or norm.kind == "layernorm"
    differences = 2 if norm.kind == "layernorm" else 1
    scaled = size * (FP32 if in_full else width) if norm.weight and trained else 0
    return (
        saved(IN_FP32, differences * size * FP32, Role.FOR_INPUT_GRADIENT),
        saved("normalised input", scaled, Role.NORMALISED),
    )

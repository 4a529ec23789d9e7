"""What multiplies in fp8 or fp4: by which recipe, in copies of how many bytes, in which layers."""

from collections.abc import Mapping
from fractions import Fraction

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.plan import TargetGpu
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.framework import FrameworkName
from trainfit.specs.job import Job
from trainfit.specs.precision import WIDE_LAYERS, Narrow, Precision

COPIES: Mapping[Narrow, Fraction] = {
    "delayed": Fraction(1),
    "tensorwise": Fraction(1),
    "rowwise": Fraction(1),
    "blockwise": 1 + Fraction(4, 128),
    "mxfp8": 1 + Fraction(1, 32),
    "nvfp4": Fraction(1, 2) + Fraction(1, 16),
}
"""Bytes of an fp8 element with its scale: one fp32 for 128, or one byte for 32 elements; of an fp4
one half a byte, and a byte for 16. One scale for a row or for all is next to nothing. Sources:
TransformerEngine's pytorch/tensor, torchao's prototype/mx_formats (mx_tensor.py) and
prototype/moe_training/nvfp4_training (hadamard_quantize_row_col_triton.py).
"""


LEAST_CAPABILITY: Mapping[Narrow, int] = {
    "delayed": 89,
    "tensorwise": 89,
    "rowwise": 89,
    "blockwise": 90,
    "mxfp8": 100,
    "nvfp4": 100,
}
"""Ten times the compute capability below which libraries refuse a recipe. Sources:
TransformerEngine's pytorch/quantization.py (check_fp8_support and its neighbours), torchtitan's
components/quantization (float8.py, mx.py).
"""
WITHOUT_MXFP8 = 120
"""From here on TransformerEngine has no products in mxfp8 of every layout."""
LIBRARIES: Mapping[FrameworkName, str] = {"megatron": "TransformerEngine"}
"""What multiplies; torchao elsewhere."""


def doubts(job: Job, gpu: TargetGpu) -> tuple[str, ...]:
    """That the GPU has no products as the job wants them, if so."""
    given = job.training.precision
    by_preset: Narrow | None = "delayed" if given == "fp8" else None
    of_linears = narrow_recipe(given) if isinstance(given, Precision) else by_preset
    recipe = job.training.moe.fp8_recipe or of_linears
    digits = gpu.compute_capability.removeprefix("sm_")
    if recipe is None or not digits.isdigit():
        return ()
    has, least, library = int(digits), LEAST_CAPABILITY[recipe], _library(job)
    too_new = recipe == "mxfp8" and has >= WITHOUT_MXFP8 and library == "TransformerEngine"
    if least <= has and not too_new:
        return ()
    wanted = f"less than {WITHOUT_MXFP8 / 10}" if too_new else f"at least {least / 10}"
    return (
        f"{library} multiplies in {recipe} on GPUs of compute capability {wanted}, and {gpu.name} "
        f"has {has / 10}: the run would end before its first step. The figures are those of a GPU "
        "that has such products.",
    )


def _library(job: Job) -> str:
    return LIBRARIES.get(job.framework.name, "torchao")


def narrow_recipe(precision: Precision) -> Narrow | None:
    """How linears multiply in fp8 or fp4, if they do."""
    return precision.fp8_recipe or precision.fp4_recipe


def with_wide_layers(model: ModelSpec, precision: Precision) -> ModelSpec:
    """The model, its first and last layers of kinds that do not multiply in fp8 or fp4; those of
    multi-token prediction do. Source: Megatron-LM's fp8_utils.py (is_first_last_bf16_layer).
    """
    total = model.num_layers
    first, last = precision.num_layers_at_start_in_bf16, precision.num_layers_at_end_in_bf16
    wide = {*range(min(first, total)), *range(max(0, total - last), total)}
    return model.with_layers(wide, lambda layer: layer.with_sublayers(wide=True))


def check_recipes(precision: Precision, findings: Findings) -> None:
    """One recipe at a time, and one where some layers are left out of it. Source: Megatron-LM's
    transformer_config.py (fp4, first_last_layers_bf16).
    """
    recipe = narrow_recipe(precision)
    if precision.fp8_recipe is not None and precision.fp4_recipe is not None:
        where = "/training/precision/fp4_recipe"
        findings.add(where, "conflict", "fp4_recipe goes without an fp8_recipe", put(where, None))
    for name in WIDE_LAYERS if recipe is None else ():
        if getattr(precision, name):
            where = f"/training/precision/{name}"
            message = "layers in bf16 need an fp8_recipe or an fp4_recipe that other layers have"
            findings.add(where, "conflict", message, put(where, 0))

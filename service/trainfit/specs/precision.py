"""Data types of a training step."""

from typing import Literal

from pydantic import Field

from trainfit.specs.part import LayerCount, Part

Dtype = Literal["fp32", "bf16", "fp16", "fp8"]
PrecisionPreset = Literal["bf16", "bf16-pure", "fp16", "fp32", "autocast-bf16", "fp8"]
Fp8Recipe = Literal["delayed", "tensorwise", "rowwise", "blockwise", "mxfp8"]
Fp4Recipe = Literal["nvfp4"]
Narrow = Literal["delayed", "tensorwise", "rowwise", "blockwise", "mxfp8", "nvfp4"]
"""A recipe of either."""
WIDE_LAYERS = ("num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16")
"""Fields by which first and last layers do not multiply in fp8 or fp4."""
ONLY_MEGATRON = (
    "fp4_param_gather",
    "reuse_grad_buf_for_mxfp8_param_ag",
    "fp8_dot_product_attention",
    "fp8_output_proj",
)
"""Fields of a precision that Megatron alone has."""


class Precision(Part):
    """Data types of the states of a parameter and of the arithmetic on it."""

    params: Dtype = Field("bf16", description="Weights that forward and backward read.")
    compute: Dtype = Field("bf16", description="Activations.")
    gradients: Dtype = Field("fp32", description="Main gradients, in which they accumulate.")
    main_params: Dtype = Field("fp32", description="Master weights of the optimizer.")
    fp8_recipe: Fp8Recipe | None = Field(
        None, description="How linears multiply in fp8. Unset: they do not."
    )
    fp8_param_gather: bool = Field(
        False, description="Keep and gather the weights of linears in fp8 only."
    )
    fp4_recipe: Fp4Recipe | None = Field(
        None,
        description="Megatron, torchtitan: how linears multiply in fp4, in place of fp8. Unset: "
        "they do not.",
    )
    fp4_param_gather: bool = Field(
        False, description="Megatron: keep and gather the weights of linears in fp4 only."
    )
    reuse_grad_buf_for_mxfp8_param_ag: bool = Field(
        True,
        description="Megatron, mxfp8 with fp8_param_gather: gather weights into the buffer of "
        "gradients; else there is one of bf16 beside it.",
    )
    fp8_dot_product_attention: bool = Field(
        False,
        description="Megatron: the kernel of attention reads fp8 too, and keeps what it reads so.",
    )
    fp8_output_proj: bool = Field(
        False, description="Megatron, mxfp8: the output layer multiplies in fp8 as linears do."
    )
    num_layers_at_start_in_bf16: LayerCount = Field(
        0,
        description="Megatron, torchtitan: so many first layers multiply as wide as their "
        "activations are, and keep their weights so (--first-last-layers-bf16).",
    )
    num_layers_at_end_in_bf16: LayerCount = Field(
        0, description="Megatron, torchtitan: the same of so many last layers."
    )

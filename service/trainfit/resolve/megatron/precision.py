"""Bytes of a parameter's states, and of what linears read, by the precision of a Megatron step."""

from collections.abc import Mapping
from fractions import Fraction

from trainfit.resolve.megatron.plan import AttentionBytes, BytesPerParameter, NarrowWeights
from trainfit.resolve.narrow import COPIES, narrow_recipe
from trainfit.resolve.plan import TargetGpu
from trainfit.specs.optimizers import OPTIMIZERS
from trainfit.specs.precision import Narrow, Precision
from trainfit.specs.training import Optimizer, Training

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
PRESETS = {
    "bf16": Precision(),
    "fp16": Precision(params="fp16", compute="fp16", gradients="fp16"),
    "fp32": Precision(params="fp32", compute="fp32"),
    "fp8": Precision(fp8_recipe="tensorwise"),
}
"""Megatron accumulates gradients in fp32 for bf16 only (arguments.py)."""


def resolve_precision(training: Training) -> Precision:
    if isinstance(training.precision, Precision):
        return training.precision
    return PRESETS[training.precision]


MOMENTUM = 4
"""fp32 bytes of the one momentum that SGD, Lion and Muon keep: Muon of matrices only, SGD even
where it is 0. Source: TransformerEngine's optimizers/fused_sgd.py (get_momentums).
"""
FP8_WEIGHT: Mapping[Narrow, Fraction] = {**COPIES, "blockwise": 1 + Fraction(4, 128 * 128)}
"""The same of a weight, whose blocks are square. Source: TransformerEngine's
tensor/float8_blockwise_tensor.py (Float8BlockQuantizer, block_scaling_dim).
"""


def states_of(training: Training, gpu: TargetGpu) -> BytesPerParameter:
    frozen = training.peft is not None
    return state_bytes(resolve_precision(training), training.optimizer, gpu, frozen=frozen)


def state_bytes(
    precision: Precision, optimizer: Optimizer, gpu: TargetGpu, *, frozen: bool = False
) -> BytesPerParameter:
    """Bytes per parameter. fp32 weights are their own master, unless they are gathered in fp8 and
    so kept in it; Adam keeps two moments.

    The step copies gradients of less than 32 bits into fp32, and moments in fp16 or fp8 as well.
    An optimizer that holds the master weights itself reads gradients as they are, and beside bf16
    weights keeps the lower half of the master weights only. Sources: Megatron-LM's
    optimizer/distrib_optimizer.py and optimizer_config.py, TransformerEngine's
    optimizers/fused_adam.py, Mixed Precision Training (1710.03740).
    """
    gradients = BYTES[precision.gradients]
    master = 0 if precision.params == "fp32" else BYTES[precision.main_params]
    holds_master = _holds_master(precision, optimizer)
    if holds_master and (precision.params, precision.main_params) == ("bf16", "fp32"):
        master = 2
    adam = [optimizer.exp_avg_dtype or "fp32", optimizer.exp_avg_sq_dtype or "fp32"]
    both = tuple([BYTES[dtype] for dtype in adam])
    record = OPTIMIZERS[optimizer.name]
    narrow = sum(dtype in ("fp16", "fp8") for dtype in adam)
    copies = 4 * narrow if record.precision_aware else 0
    if gradients < 4 and not holds_master:
        copies += 4
    return BytesPerParameter(
        weights=BYTES[precision.params],
        narrow=_narrow_weights(precision, gpu, frozen=frozen),
        gradients=gradients,
        master=master,
        linear_master=BYTES[precision.main_params]
        if precision.params == "fp32" and precision.fp8_param_gather
        else 0,
        each_moment=both if record.moments == 2 else (MOMENTUM,),
        matrix_moments=sum(both) if record.matrix_moments == 2 else MOMENTUM,
        step=copies,
        holds_master=holds_master and master > 0,
    )


def _holds_master(precision: Precision, optimizer: Optimizer) -> bool:
    """Whether a precision-aware optimizer holds the master weights. In fp8 by any recipe but
    delayed scaling Megatron holds them, whole and in fp32, unless they are on the host.
    Source: optimizer_config.py (use_precision_aware_optimizer_no_fp8_or_ds_fp8).
    """
    in_step = narrow_recipe(precision) in (None, "delayed", "nvfp4")
    on_host = optimizer.cpu_offload_fraction > 0
    own = precision.main_params != "fp32" or in_step or on_host
    return optimizer.precision_aware and own


def _narrow_weights(precision: Precision, gpu: TargetGpu, *, frozen: bool) -> NarrowWeights | None:
    """Copies of a linear's weight in fp8, with their scales: one for the forward product, and one
    laid out for the backward, which the per-tensor recipes do without
    on GPUs of compute capability 10 and 11. Gathered in fp8, both stand in place of the bf16
    weight, unless mxfp8 is made of a buffer of bf16 that is gathered; frozen ones have none.
    Sources: TransformerEngine's module/base.py (reset_parameters: rowwise and columnwise),
    tensor/utils.py (post_all_gather_processing), utils.py (is_non_tn_fp8_gemm_supported).
    """
    recipe = narrow_recipe(precision)
    if recipe is None:
        return None
    either = gpu.compute_capability.startswith(("sm_10", "sm_11"))
    copies = 1 if either and recipe in ("delayed", "tensorwise") else 2
    gathered = precision.fp8_param_gather or precision.fp4_param_gather
    buffered = not frozen and not precision.reuse_grad_buf_for_mxfp8_param_ag
    beside = recipe == "mxfp8" and buffered
    return NarrowWeights(copies, FP8_WEIGHT[recipe], alone=gathered and not beside)


FP8_ATTENTION = ("delayed", "tensorwise", "mxfp8")
"""Recipes by which the kernel of attention reads fp8."""


def attention_bytes(precision: Precision) -> AttentionBytes | None:
    """What attention in fp8 keeps: queries, keys and values, in mxfp8 row- and columnwise, and its
    output in fp8 under delayed scaling alone. Source: TransformerEngine's
    attention/dot_product_attention/backends.py (FusedAttnFunc).
    """
    recipe = precision.fp8_recipe
    if not precision.fp8_dot_product_attention or recipe not in FP8_ATTENTION:
        return None
    both = 2 if recipe == "mxfp8" else 1
    output = Fraction(1 if recipe == "delayed" else BYTES[precision.compute])
    return AttentionBytes(both * COPIES[recipe], output)

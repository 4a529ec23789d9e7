"""Precision, recompute and routing of one step under Megatron."""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Literal

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.megatron.adapters import adapters_of
from trainfit.resolve.megatron.plan import (
    AttentionBytes,
    NarrowWeights,
    RecomputePolicy,
    Routing,
    StateBytes,
    Step,
)
from trainfit.resolve.plan import Layout, TargetGpu
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.framework import Megatron
from trainfit.specs.job import Job
from trainfit.specs.optimizers import OPTIMIZERS
from trainfit.specs.precision import Fp4Recipe, Fp8Recipe, Precision
from trainfit.specs.training import MoeOptions, Optimizer, Training

Narrow = Fp8Recipe | Fp4Recipe
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
PRESETS = {
    "bf16": Precision(),
    "fp16": Precision(params="fp16", compute="fp16", gradients="fp16"),
    "fp32": Precision(params="fp32", compute="fp32"),
    "fp8": Precision(fp8_recipe="tensorwise"),
}
"""Megatron accumulates gradients in fp32 for bf16 only (arguments.py)."""


ALIGNED: Mapping[Narrow | None, int] = {"mxfp8": 32, "nvfp4": 128}
"""Rows that products of experts want multiples of; 16 by the other recipes. Source:
megatron/core/fp8_utils.py (get_fp8_align_size), fp4_utils.py (get_fp4_align_size)."""


def check_interleaving(layout: Layout, count: int, findings: Findings) -> None:
    group = layout.pipeline.microbatch_group_size
    if layout.pipeline.schedule != "interleaved":
        return
    if not layout.pipeline.pp <= group <= max(count, layout.pipeline.pp):
        findings.add(
            "/parallelism/microbatch_group_size_per_vp_stage",
            "interleaving",
            f"a group has between pp = {layout.pipeline.pp} and {count} micro-batches",
        )
    elif count < group or 0 < count % group < layout.pipeline.pp:
        nearest = max(1, ceil(count / group)) * group
        findings.add(
            "/training/num_microbatches",
            "interleaving",
            f"{count} micro-batches do not interleave in groups of {group}: the last group needs "
            f"at least pp = {layout.pipeline.pp}; {nearest} do",
            put("/training/num_microbatches", nearest),
        )


def resolve_precision(training: Training) -> Precision:
    if isinstance(training.precision, Precision):
        return training.precision
    return PRESETS[training.precision]


MOMENTUM = 4
"""fp32 bytes of the one momentum that SGD, Lion and Muon keep: Muon of matrices only, SGD even
where it is 0. Source: TransformerEngine's optimizers/fused_sgd.py (get_momentums).
"""
FP8_INPUT: Mapping[Narrow, Fraction] = {
    "delayed": Fraction(1),
    "tensorwise": Fraction(1),
    "blockwise": 1 + Fraction(4, 128),
    "mxfp8": 1 + Fraction(1, 32),
    "nvfp4": Fraction(1, 2) + Fraction(1, 16),
}
"""Bytes of an fp8 element with its scale: one fp32 for 128, or one byte for 32 elements; of an fp4
one half a byte, and a byte for 16. Source: TransformerEngine's pytorch/tensor.
"""
FP8_WEIGHT: Mapping[Narrow, Fraction] = {**FP8_INPUT, "blockwise": 1 + Fraction(4, 128 * 128)}
"""The same of a weight, whose blocks are square. Source: TransformerEngine's
tensor/float8_blockwise_tensor.py (Float8BlockQuantizer, block_scaling_dim).
"""


def _states(training: Training, gpu: TargetGpu) -> StateBytes:
    frozen = training.peft is not None
    return state_bytes(resolve_precision(training), training.optimizer, gpu, frozen=frozen)


def state_bytes(
    precision: Precision, optimizer: Optimizer, gpu: TargetGpu, *, frozen: bool = False
) -> StateBytes:
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
    return StateBytes(
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
    on cards of compute capability 10 and 11. Gathered in fp8, both stand in place of the bf16
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


def narrow_recipe(precision: Precision) -> Narrow | None:
    """How linears multiply in fp8 or fp4, if they do."""
    return precision.fp8_recipe or precision.fp4_recipe


def with_wide_layers(model: ModelSpec, precision: Precision) -> ModelSpec:
    """The model, its first and last layers of kinds that do not multiply in fp8 or fp4; those of
    multi-token prediction do. Source: Megatron-LM's fp8_utils.py (is_first_last_bf16_layer).
    """
    total = model.num_layers
    first, last = precision.num_layers_at_start_in_bf16, precision.num_layers_at_end_in_bf16
    wide = {place for place in range(total) if place < first or place >= total - last}
    return model.with_layers(wide, lambda layer: layer.with_sublayers(wide=True))


FP8_ATTENTION = ("delayed", "tensorwise", "mxfp8")
"""Recipes by which the kernel of attention reads fp8."""


def _attention_bytes(precision: Precision) -> AttentionBytes | None:
    """What attention in fp8 keeps: queries, keys and values, in mxfp8 row- and columnwise, and its
    output in fp8 under delayed scaling alone. Source: TransformerEngine's
    attention/dot_product_attention/backends.py (FusedAttnFunc).
    """
    recipe = precision.fp8_recipe
    if not precision.fp8_dot_product_attention or recipe not in FP8_ATTENTION:
        return None
    both = 2 if recipe == "mxfp8" else 1
    output = Fraction(1 if recipe == "delayed" else BYTES[precision.compute])
    return AttentionBytes(both * FP8_INPUT[recipe], output)


def resolve_recompute(
    training: Training, layout: Layout, layers: int, findings: Findings
) -> RecomputePolicy:
    """What is dropped. Source: megatron/core/transformer/transformer_config.py."""
    given, offloaded = training.recompute, frozenset(training.offload_modules)
    where = "/training/recompute"
    if given.granularity == "full" and offloaded:
        findings.add(
            "/training/offload_modules",
            "conflict",
            "full recompute keeps nothing to offload",
            put("/training/offload_modules", []),
        )
    if "attn_proj" in offloaded and "core_attn" not in offloaded:
        findings.add(
            "/training/offload_modules",
            "conflict",
            "attn_proj reads what core_attn keeps: it is not offloaded without core_attn",
            put("/training/offload_modules", [*training.offload_modules, "core_attn"]),
        )
    if given.granularity != "full":
        if given.method is not None or given.num_layers is not None:
            findings.add(
                f"{where}/method",
                "recompute",
                "method and num_layers go with granularity full",
                put(f"{where}/granularity", "full"),
            )
        modules = frozenset(given.modules or ("core_attn",))
        chosen = modules if given.granularity == "selective" else frozenset[str]()
        if given.granularity is None and given.modules is not None:
            findings.add(
                f"{where}/modules",
                "recompute",
                "modules go with granularity selective",
                put(f"{where}/granularity", "selective"),
            )
        return RecomputePolicy("none", 0, chosen, offloaded, False)
    if given.modules is not None:
        findings.add(f"{where}/modules", "recompute", "modules go with granularity selective")
    if given.num_layers is not None and given.num_layers > layers:
        findings.add(f"{where}/num_layers", "recompute", f"the model has {layers} layers")
    if given.distribute_saved_activations and layout.sequence_parallel:
        findings.add(
            f"{where}/distribute_saved_activations",
            "conflict",
            "sequence parallelism shares them out already",
            put(f"{where}/distribute_saved_activations", False),
        )
    count = given.num_layers if given.num_layers is not None else 1
    method = given.method or "uniform"
    if method == "uniform" and count == 0:
        findings.add(f"{where}/num_layers", "recompute", "uniform recomputes groups of 1 or more")
    _check_mtp_recompute(method, count, layout, findings)
    nothing = frozenset[str]()
    distributed = given.distribute_saved_activations
    return RecomputePolicy(method, count, nothing, nothing, distributed)


def _check_mtp_recompute(method: str, count: int, layout: Layout, findings: Findings) -> None:
    """Multi-token prediction recomputes each of its layers by itself, or none.

    Source: megatron/core/transformer/multi_token_prediction.py.
    """
    if not any(stage.mtp_layers for stage in layout.pipeline.virtual_stages):
        return
    if method == "block" and count:
        findings.add(
            "/training/recompute/method",
            "recompute",
            "multi-token prediction recomputes uniformly only",
            put("/training/recompute/method", "uniform"),
        )
    elif count > 1:
        findings.add(
            "/training/recompute/num_layers",
            "recompute",
            "multi-token prediction recomputes one layer at a time",
            put("/training/recompute/num_layers", 1),
        )


BEFORE_AMPERE = ("sm_60", "sm_70", "sm_75")


def attention_backend(
    job: Job, framework: Megatron, gpu: TargetGpu
) -> Literal["flash", "fused", "unfused"]:
    """The local implementation has unfused attention only. TransformerEngine prefers cuDNN's
    kernel on Hopper and FlashAttention before it, and has neither before Ampere
    (dot_product_attention/utils.py); measured peaks on Blackwell fit FlashAttention's.
    """
    backend = job.training.attention.backend
    if framework.transformer_impl == "local":
        return "unfused"
    if backend == "auto":
        if gpu.compute_capability in BEFORE_AMPERE:
            return "unfused"
        return "fused" if gpu.compute_capability in ("", "sm_90") else "flash"
    assert backend in ("flash", "fused", "unfused")
    return backend


def _check_implementation(
    job: Job, framework: Megatron, layout: Layout, findings: Findings
) -> None:
    """What only TransformerEngine runs, or only its fused attention.

    Source: dot_product_attention.py and transformer_config.py of megatron-core,
    TransformerEngine's dot_product_attention/utils.py.
    """
    local = framework.transformer_impl == "local"
    backend = job.training.attention.backend
    if local and backend not in ("auto", "unfused"):
        findings.add(
            "/training/attention/backend",
            "conflict",
            "the local implementation has unfused attention only",
            put("/training/attention/backend", "unfused"),
        )
    if local and narrow_recipe(resolve_precision(job.training)) is not None:
        findings.add(
            "/framework/transformer_impl",
            "conflict",
            "fp8 needs TransformerEngine",
            put("/framework/transformer_impl", "transformer_engine"),
        )
    if layout.cp > 1 and (local or backend == "unfused"):
        pointer = "/framework/transformer_impl" if local else "/training/attention/backend"
        findings.add(
            pointer,
            "conflict",
            "context parallelism needs TransformerEngine's fused or flash attention",
            put(pointer, "transformer_engine" if local else "auto"),
        )


def _check_narrow_states(job: Job, layout: Layout, findings: Findings) -> None:
    """What Megatron's distributed optimizer alone does. Sources: Megatron-LM's arguments.py,
    megatron/core/optimizer (__init__.py, optimizer_config.py), transformer_config.py.
    """
    precision, optimizer = resolve_precision(job.training), job.training.optimizer
    gather = "/training/precision/fp8_param_gather"
    aware = "/training/optimizer/precision_aware"
    sharded = layout.sharding != "no_shard"
    late = precision.fp8_recipe != "delayed" and optimizer.cpu_offload_fraction > 0
    wrong = [
        (precision.fp8_recipe is None, "needs an fp8_recipe"),
        (not sharded, "needs sharded optimizer states"),
        (late, "goes with an optimizer on the host under delayed scaling only"),
    ]
    for holds, message in wrong if precision.fp8_param_gather else ():
        if holds:
            findings.add(gather, "conflict", f"gathering in fp8 {message}", put(gather, False))
    _check_fp4(precision, sharded=sharded, findings=findings)
    _check_wide_layers(precision, findings)
    if optimizer.precision_aware and not (sharded and OPTIMIZERS[optimizer.name].precision_aware):
        message = "a precision-aware optimizer is Adam with sharded states"
        findings.add(aware, "conflict", message, put(aware, False))


def _check_offloading(job: Job, framework: Megatron, layout: Layout, findings: Findings) -> None:
    """Source: megatron/core/transformer/transformer_config.py (cpu_offloading)."""
    where = "/framework/cpu_offloading_num_layers"
    wrong = [
        (layout.pipeline.pp > 1, "goes with one pipeline stage"),
        (job.training.recompute.granularity is not None, "does not go with recompute"),
        (job.training.moe.paged_stash, "does not go with a paged stash"),
        (
            framework.cuda_graph_impl in ("local", "transformer_engine"),
            "does not go with CUDA graphs of layers",
        ),
    ]
    for holds, message in wrong if framework.cpu_offloading_num_layers else ():
        if holds:
            findings.add(where, "conflict", f"offloading layers {message}", put(where, 0))


def _check_wide_layers(precision: Precision, findings: Findings) -> None:
    """Source: transformer_config.py (first_last_layers_bf16)."""
    recipe = narrow_recipe(precision)
    wrong = [
        (recipe is None, "need an fp8_recipe or an fp4_recipe that other layers have"),
        (recipe == "delayed", "do not go with delayed scaling"),
    ]
    for name in ("num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16"):
        for holds, message in wrong if getattr(precision, name) else ():
            if holds:
                where = f"/training/precision/{name}"
                findings.add(where, "conflict", f"layers in bf16 {message}", put(where, 0))


def _check_fp4(precision: Precision, *, sharded: bool, findings: Findings) -> None:
    """What goes with fp4, and what of fp8 asks for a recipe. Source: transformer_config.py."""
    where, eight = "/training/precision", precision.fp8_recipe
    wrong = [
        ("fp4_recipe", None, precision.fp4_recipe and eight, "goes without an fp8_recipe"),
        (
            "fp4_param_gather",
            False,
            precision.fp4_param_gather and not precision.fp4_recipe,
            "needs an fp4_recipe",
        ),
        (
            "fp4_param_gather",
            False,
            precision.fp4_param_gather and not sharded,
            "needs sharded optimizer states",
        ),
        (
            "fp8_dot_product_attention",
            False,
            precision.fp8_dot_product_attention and eight not in FP8_ATTENTION,
            f"needs an fp8_recipe that is one of {', '.join(FP8_ATTENTION)}",
        ),
        (
            "fp8_output_proj",
            False,
            precision.fp8_output_proj and eight != "mxfp8",
            "needs the fp8_recipe mxfp8",
        ),
    ]
    for name, without, holds, message in wrong:
        if holds:
            pointer = f"{where}/{name}"
            findings.add(pointer, "conflict", f"{name} {message}", put(pointer, without))


def resolve_step(
    job: Job,
    framework: Megatron,
    layout: Layout,
    layers: int,
    gpu: TargetGpu,
    findings: Findings,
) -> Step:
    training = job.training
    _check_implementation(job, framework, layout, findings)
    _check_narrow_states(job, layout, findings)
    _check_offloading(job, framework, layout, findings)
    precision = resolve_precision(training)
    recipe, states = narrow_recipe(precision), _states(training, gpu)
    cross_entropy = training.loss.cross_entropy
    assert cross_entropy in ("unfused", "native_fused", "te_fused")
    return Step(
        activation_bytes=BYTES[precision.compute],
        linear_input_bytes=Fraction(BYTES[precision.compute])
        if recipe is None
        else FP8_INPUT[recipe],
        narrow_recipe=recipe,
        head_weight=states.linear_weights if precision.fp8_output_proj else Fraction(0),
        attention=_attention_bytes(precision),
        states=states,
        optimizer_offload_ratio=float(training.optimizer.cpu_offload_fraction),
        recompute=resolve_recompute(training, layout, layers, findings),
        attention_backend=attention_backend(job, framework, gpu),
        attention_dropout=bool(training.attention.dropout),
        hidden_dropout=bool(training.hidden_dropout),
        cross_entropy=cross_entropy,
        adapters=adapters_of(job, findings),
    )


def resolve_routing(job: Job, findings: Findings) -> Routing:
    moe = job.training.moe
    if moe.pad_expert_input_to_capacity and moe.expert_capacity_factor is None:
        findings.add(
            "/training/moe/expert_capacity_factor",
            "missing",
            "padding experts to their capacity needs a capacity factor",
            put("/training/moe/expert_capacity_factor", 1.0),
        )
    precision = resolve_precision(job.training)
    dtype = moe.router_dtype or precision.compute
    dispatcher = moe.token_dispatcher_type
    kind = moe.flex_dispatcher_backend if dispatcher == "flex" else dispatcher
    room = moe.expert_rank_capacity_factor or 0.0
    _check_room(moe, findings)
    recipe = narrow_recipe(precision)
    padded = moe.router_padding_for_quantization and recipe is not None
    return Routing(
        dispatcher=kind,
        grouped_gemm=moe.grouped_gemm,
        permute_fusion=moe.permute_fusion,
        capacity_factor=moe.expert_capacity_factor or 0.0,
        pad_to_capacity=moe.pad_expert_input_to_capacity,
        imbalance_factor=float(moe.imbalance_factor),
        random=moe.router_force_load_balancing,
        probability_bytes=BYTES[dtype],
        shared_expert_overlap=moe.shared_expert_overlap,
        deepep_sms=moe.deepep_num_sms,
        rank_capacity_factor=room if kind == "hybridep" else 0.0,
        stash_factor=moe.paged_stash_buffer_size_factor_cuda if moe.paged_stash else 0.0,
        align=ALIGNED.get(recipe, 16) if padded else 1,
    )


def _check_room(moe: MoeOptions, findings: Findings) -> None:
    """Source: megatron/core/transformer/transformer_config.py (moe_paged_stash)."""
    where = "/training/moe/expert_rank_capacity_factor"
    if moe.paged_stash and moe.expert_rank_capacity_factor is None:
        message = "a paged stash keeps what arrives of the room that this factor gives: set it"
        findings.add(where, "missing", message, put(where, 1.5))


def check_token_overlap(
    job: Job, framework: Megatron, layout: Layout, mtp_layers: int, findings: Findings
) -> None:
    """What exchanging one micro-batch's tokens while another is computed does not go with.

    Source: megatron/core/transformer/transformer_config.py, pipeline_parallel/schedules.py.
    """
    if not framework.overlap_moe_expert_parallel_comm:
        return
    moe, recompute = job.training.moe, job.training.recompute
    wrong = [
        (layout.ep == 1, "needs ep > 1"),
        (moe.token_dispatcher_type == "allgather", "needs the dispatcher alltoall or flex"),
        (moe.shared_expert_overlap, "does not go with moe.shared_expert_overlap"),
        (recompute.granularity == "full", "does not go with full recompute"),
        ("moe" in (recompute.modules or ()), "does not go with the recompute module moe"),
        (layout.pipeline.pp > 1 and layout.pipeline.vpp == 1, "needs vpp > 1 where pp > 1"),
        (layout.pipeline.schedule not in ("1f1b", "interleaved"), "has a schedule of its own"),
        (mtp_layers > 1, "goes with one depth of multi-token prediction at most"),
    ]
    where = "/framework/overlap_moe_expert_parallel_comm"
    for holds, message in wrong:
        if holds:
            findings.add(where, "conflict", f"the overlap {message}", put(where, False))

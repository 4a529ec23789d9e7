"""One step under Megatron: its kernels, and what of it is inconsistent."""

from fractions import Fraction
from math import ceil
from typing import Literal, get_args

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.megatron.adapters import adapters_of
from trainfit.resolve.megatron.plan import ActorLoss, ActorsCode, MuonStep, StepArithmetic
from trainfit.resolve.megatron.precision import (
    BYTES,
    FP8_ATTENTION,
    attention_bytes,
    resolve_precision,
    states_of,
)
from trainfit.resolve.megatron.recompute import resolve_recompute
from trainfit.resolve.narrow import COPIES, check_recipes, narrow_recipe
from trainfit.resolve.plan import Layout, TargetGpu
from trainfit.specs.framework import Megatron
from trainfit.specs.job import Job
from trainfit.specs.loss import Loss
from trainfit.specs.optimizers import OPTIMIZERS
from trainfit.specs.precision import WIDE_LAYERS, Precision
from trainfit.specs.training import Optimizer

LOSS, OF_ACTORS = "/training/loss", ("entropy", "reference")
WITHOUT_ENTROPY = ("ms-swift", "nemo-rl")


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
    check_recipes(precision, findings)
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
    for name in WIDE_LAYERS:
        if getattr(precision, name) and precision.fp8_recipe == "delayed":
            where = f"/training/precision/{name}"
            message = "layers in bf16 do not go with delayed scaling"
            findings.add(where, "conflict", message, put(where, 0))


def _check_fp4(precision: Precision, *, sharded: bool, findings: Findings) -> None:
    """What of fp4 and fp8 asks for a recipe. Source: transformer_config.py."""
    where, eight = "/training/precision", precision.fp8_recipe
    wrong = [
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


def _muon_of(optimizer: Optimizer, layout: Layout) -> MuonStep | None:
    if optimizer.name != "muon":
        return None
    return MuonStep(optimizer.muon_nesterov, optimizer.muon_tp_mode, layout.tp, layout.etp)


def actor_of(loss: Loss, findings: Findings, *, adapts: bool) -> ActorLoss | None:
    """How an actor computes log-probabilities, where the loss is over those of tokens. Preferences
    read the log-probabilities that the model's own loss has.
    """
    reference = "copy" if loss.reference == "base" and not adapts else loss.reference
    if loss.objective == "next_token":
        only = "only the loss of an actor has this"
        wanted = [(name, "none", f"{only} {name}") for name in OF_ACTORS]
    elif loss.objective == "preference":
        message = "ms-swift's losses of preferences are read under Megatron"
        wanted = [
            ("log_probs_by", "ms-swift", message),
            ("entropy", "none", "losses of preferences have no entropy"),
        ]
    else:
        entropy = (
            "whole"
            if loss.entropy != "none" and loss.log_probs_by not in WITHOUT_ENTROPY
            else "none"
        )
        unfused = "log-probabilities are computed by the plain cross entropy"
        wanted = [
            ("log_probs_by", _code_of(loss), f"{loss.log_probs_by} does not run under Megatron"),
            ("entropy", entropy, f"an entropy is {entropy} by this code under Megatron"),
            ("cross_entropy", "unfused", unfused),
        ]
    if loss.objective != "next_token":
        wanted.append(("reference", reference, "the reference is a model of its own without LoRA"))
    for name, value, message in wanted:
        if getattr(loss, name) != value:
            pointer = f"{LOSS}/{name}"
            findings.add(pointer, "conflict", message, put(pointer, value))
    if loss.objective != "policy":
        return None
    return ActorLoss(_code_of(loss), entropy=loss.entropy != "none")


def _code_of(loss: Loss) -> ActorsCode:
    """Whose code it is, of those that are known under Megatron."""
    return next((each for each in get_args(ActorsCode) if each == loss.log_probs_by), "verl")


def resolve_step(
    job: Job,
    framework: Megatron,
    layout: Layout,
    layers: int,
    gpu: TargetGpu,
    findings: Findings,
) -> StepArithmetic:
    training = job.training
    _check_implementation(job, framework, layout, findings)
    _check_narrow_states(job, layout, findings)
    _check_offloading(job, framework, layout, findings)
    precision = resolve_precision(training)
    recipe, states = narrow_recipe(precision), states_of(training, gpu)
    cross_entropy = training.loss.cross_entropy
    assert cross_entropy in ("unfused", "native_fused", "te_fused")
    return StepArithmetic(
        activation_bytes=BYTES[precision.compute],
        linear_input_bytes=Fraction(BYTES[precision.compute]) if recipe is None else COPIES[recipe],
        narrow_recipe=recipe,
        head_weight=states.linear_weights if precision.fp8_output_proj else Fraction(0),
        attention=attention_bytes(precision),
        states=states,
        optimizer_offload_ratio=float(training.optimizer.cpu_offload_fraction),
        recompute=resolve_recompute(training, layout, layers, findings),
        attention_backend=attention_backend(job, framework, gpu),
        attention_dropout=bool(training.attention.dropout),
        hidden_dropout=bool(training.hidden_dropout),
        cross_entropy=cross_entropy,
        actor=actor_of(training.loss, findings, adapts=training.peft is not None),
        has_copy=training.loss.reference == "copy",
        adapters=adapters_of(job, findings),
        muon=_muon_of(training.optimizer, layout),
        frozen=frozenset(training.frozen) if training.peft is None else frozenset(),
    )

"""What Megatron offers: switches, narrower states, modules that run again or wait on the host."""

from __future__ import annotations

from collections.abc import Iterator

from trainfit.decisions.candidates.candidate import OFFLOAD, RECOMPUTE, Candidate, Price
from trainfit.specs.framework import Megatron
from trainfit.specs.job import Job
from trainfit.specs.optimizers import OPTIMIZERS
from trainfit.specs.precision import Precision
from trainfit.specs.training import OffloadModule, RecomputeModule


def switches(job: Job) -> Iterator[Candidate]:
    """What gives nothing up, where it is not on already."""
    training, layout, framework = job.training, job.parallelism, job.framework
    assert isinstance(framework, Megatron)
    for path, given, wanted, cost in (
        (
            "/training/loss/cross_entropy",
            training.loss.cross_entropy,
            "te_fused",
            "none to speak of: TransformerEngine's kernel computes the loss in place",
        ),
        (
            "/framework/expandable_segments",
            framework.expandable_segments,
            True,
            "none to speak of; set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
        (
            "/framework/create_attention_mask_in_dataloader",
            framework.create_attention_mask_in_dataloader,
            False,
            "none: causal attention needs no mask",
        ),
        (
            "/framework/deallocate_pipeline_outputs",
            framework.deallocate_pipeline_outputs,
            True,
            "none: what was sent is freed",
        ),
        (
            "/framework/gradient_accumulation_fusion",
            framework.gradient_accumulation_fusion,
            True,
            "none: a faster kernel",
        ),
        (
            "/training/moe/permute_fusion",
            training.moe.permute_fusion,
            True,
            "none: a faster kernel",
        ),
    ):
        if given != wanted:
            yield Candidate({path: wanted}, Price.NOTHING, cost)
    if layout.tp > 1 and layout.sequence_parallel is False:
        yield Candidate(
            {"/parallelism/sequence_parallel": True},
            Price.NOTHING,
            "none to speak of: as many bytes are exchanged, in two steps",
        )
    if training.attention.backend == "unfused" and framework.transformer_impl != "local":
        yield Candidate(
            {"/training/attention/backend": "auto"}, Price.NOTHING, "none: a faster kernel"
        )


def trades(job: Job) -> Iterator[Candidate]:
    """What memory is bought with: precision, time, transfers to the host."""
    assert isinstance(job.framework, Megatron)
    yield from _precision(job)
    yield from _recompute(job, job.framework)
    yield from _offload(job)


def _precision(job: Job) -> Iterator[Candidate]:
    """Moments and gradients in bf16."""
    optimizer, given = job.training.optimizer, job.training.precision
    moments_in = (optimizer.exp_avg_dtype or "fp32", optimizer.exp_avg_sq_dtype or "fp32")
    moments = {
        "/training/optimizer/precision_aware": True,
        "/training/optimizer/exp_avg_dtype": "bf16",
        "/training/optimizer/exp_avg_sq_dtype": "bf16",
    }
    if OPTIMIZERS[optimizer.name].precision_aware and "fp32" in moments_in:
        yield Candidate(moments, Price.PRECISION, "moments in bf16; needs TransformerEngine's Adam")
    if given == "bf16" or (isinstance(given, Precision) and given.gradients == "fp32"):
        held = given if isinstance(given, Precision) else Precision()
        wanted = held.model_dump(exclude_unset=True) | {"gradients": "bf16"}
        yield Candidate(
            {"/training/precision": wanted, "/training/optimizer/precision_aware": True},
            Price.PRECISION,
            "gradients are accumulated and reduced in bf16",
        )


REMADE: dict[RecomputeModule, tuple[Price, str]] = {
    "layernorm": (Price.SPEED, "norms are computed twice: hardly any time"),
    "moe_act": (Price.SPEED, "the experts' activation is computed twice: hardly any time"),
    "mla_up_proj": (Price.SPEED, "the up-projections of latent attention are computed twice"),
    "core_attn": (Price.RECOMPUTATION, "attention is computed twice"),
    "shared_experts": (Price.RECOMPUTATION, "shared experts are computed twice"),
    "mlp": (Price.RECOMPUTATION, "dense MLPs are computed twice"),
    "moe": (Price.RECOMPUTATION, "expert layers, with their exchange of tokens, run twice"),
}
"""What each module costs when it is made again in backward."""


def _recompute(job: Job, framework: Megatron) -> Iterator[Candidate]:
    """One module more that runs again in backward, or all of them."""
    given = job.training.recompute
    if given.granularity != "full":
        chosen = given.modules or ("core_attn",) if given.granularity == "selective" else ()
        excluded = {*chosen, *not_remade(job, framework)}
        for module, (price, cost) in REMADE.items():
            if module in excluded:
                continue
            values = {"granularity": "selective", "modules": [*chosen, module]}
            yield Candidate({RECOMPUTE: values}, price, cost)
    if given.granularity != "full" or given.method == "block":
        whole = {"granularity": "full", "method": "uniform", "num_layers": 1}
        cost = "the whole forward is computed twice: about a third more computation"
        yield Candidate({RECOMPUTE: whole}, Price.RECOMPUTATION, cost)


def not_remade(job: Job, framework: Megatron) -> Iterator[RecomputeModule]:
    """Modules that Megatron refuses to recompute in this job, or that fused kernels remake anyway.

    Source: megatron/core/transformer/transformer_config.py.
    """
    training = job.training
    if training.attention.backend != "unfused" and framework.transformer_impl != "local":
        yield "core_attn"
    if isinstance(training.precision, Precision) and training.precision.fp8_recipe == "delayed":
        yield from ("layernorm", "moe_act")
    if not training.moe.grouped_gemm:
        yield "moe_act"
    if training.moe.shared_expert_overlap:
        yield "shared_experts"
    if {"expert_fc1", "moe_act"} & set(training.offload_modules):
        yield "moe"


AWAY: tuple[OffloadModule, ...] = ("core_attn", "qkv_linear", "expert_fc1", "moe_act")
"""Modules whose inputs can wait in host memory each by itself."""


def _offload(job: Job) -> Iterator[Candidate]:
    """Megatron's optimizer on the host is the precision-aware one."""
    training = job.training
    aware = OPTIMIZERS[training.optimizer.name].precision_aware
    if aware and training.optimizer.cpu_offload_fraction < 1:
        yield Candidate(
            {
                "/training/optimizer/precision_aware": True,
                "/training/optimizer/cpu_offload_fraction": 1.0,
            },
            Price.TRANSFERS,
            "the optimizer steps on the host, over PCIe, with its states in host memory",
        )
    remade = training.recompute.modules or ()
    if training.recompute.granularity == "full" or "moe" in remade:
        return
    for module in AWAY:
        if module not in training.offload_modules:
            yield Candidate(
                {OFFLOAD: [*training.offload_modules, module]},
                Price.TRANSFERS,
                f"what {module} keeps goes to host memory and back with every micro-batch",
            )

"""Megatron-LM and Megatron-Bridge, to whoever resolves a job of them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trainfit.resolve.batch import check_images, resolve_batch
from trainfit.resolve.defaults import derived, padded_vocabulary, resolved_defaults
from trainfit.resolve.findings import Findings, put
from trainfit.resolve.framework import Conventions
from trainfit.resolve.honoured import remarks
from trainfit.resolve.layout import resolve_layout
from trainfit.resolve.megatron.adapters import adapters_not_modelled
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.resolve.megatron.precision import resolve_precision
from trainfit.resolve.megatron.routing import check_token_overlap, resolve_routing
from trainfit.resolve.megatron.step import check_interleaving, resolve_step
from trainfit.resolve.megatron.towers import (
    check_tower,
    frozen_not_modelled,
    is_divided,
    step_of_transformers,
)
from trainfit.resolve.narrow import with_wide_layers
from trainfit.resolve.plan import Default, LeftOpen, ModelSource, Origin, TargetGpu
from trainfit.specs.architecture import ModelSpec, MultiTokenPrediction
from trainfit.specs.framework import Megatron
from trainfit.specs.job import Job
from trainfit.specs.optimizers import OPTIMIZERS
from trainfit.specs.precision import Precision


def conventions(job: Job) -> Conventions:
    """Experts are divided as everything else is, optimizer states are shared out."""
    tp = job.parallelism.tp
    return Conventions(
        sharding="optim", etp=tp, etp_of_experts=tp, repeats_kv=True, accumulates=True
    )


def not_modelled(job: Job) -> Iterator[tuple[str, str]]:
    precision, optimizer = job.training.precision, job.training.optimizer
    if isinstance(precision, Precision):
        if "fp8" in (precision.params, precision.compute, precision.main_params):
            yield "/training/precision", "fp8 other than by a recipe"
    elif precision not in ("bf16", "fp16", "fp32", "fp8"):
        yield "/training/precision", f"the precision {precision} under Megatron"
    if not OPTIMIZERS[optimizer.name].megatron:
        yield "/training/optimizer/name", f"{optimizer.name} under Megatron"
    yield from adapters_not_modelled(job)
    yield from frozen_not_modelled(job)


def plan(
    job: Job, model: ModelSpec, source: ModelSource, gpu: TargetGpu, findings: Findings
) -> MegatronPlan:
    framework = job.framework
    assert isinstance(framework, Megatron)
    own = conventions(job)
    model = _predicting(job, model, framework)
    mtp_layers = _mtp_layers(job, model, findings)
    if mtp_layers and job.training.peft is not None:
        message = "multi-token prediction beside adapters is not modelled"
        where = "/training/mtp"
        findings.add(where, "not_modelled", message, put(where, {"num_layers": 0}))
    layout = resolve_layout(job, model, mtp_layers, own, findings)
    layout = replace(layout, divides_towers=is_divided(model, framework))
    batch = resolve_batch(job, layout, own, findings)
    check_interleaving(layout, batch.num_microbatches, findings)
    step = resolve_step(job, framework, layout, model.num_layers, gpu, findings)
    routing = resolve_routing(job, findings)
    check_token_overlap(job, framework, layout, mtp_layers, findings)
    check_tower(job, model, framework, findings)
    check_images(job, model, findings, followed=True)
    findings.refuse()

    def left_open() -> tuple[Default, ...]:
        found = derived(job, model, layout, batch, mtp_layers)
        return resolved_defaults(job, found | _defaults(job, step.attention_backend))

    multiple = framework.make_vocab_size_divisible_by
    return MegatronPlan(
        model=with_wide_layers(model, resolve_precision(job.training)),
        source=source,
        vocabulary_rows=padded_vocabulary(model.embedding.rows, multiple, layout.tp),
        mtp_layers=mtp_layers,
        layout=layout,
        batch=batch,
        step=step,
        routing=routing,
        framework=framework,
        tower=step_of_transformers(job, model, framework, layout, gpu),
        gpu=gpu,
        defaults=LeftOpen(left_open),
        remarks=remarks(job),
    )


def _mtp_layers(job: Job, model: ModelSpec, findings: Findings) -> int:
    declared = model.mtp.num_layers if model.mtp is not None else 0
    if job.training.mtp is None:
        return declared
    wanted = job.training.mtp.num_layers
    if wanted and not declared:
        findings.add(
            "/training/mtp/num_layers",
            "no_mtp",
            "the model declares no such depths, and its last layer is no whole one",
        )
    return wanted


def _predicting(job: Job, model: ModelSpec, framework: Megatron) -> ModelSpec:
    """The model with its depths of multi-token prediction: of one that has none they are made as
    its last layer, if that has both attention and a feed-forward network, and all may be one that
    is repeated. Source: gpt_layer_specs.py (get_gpt_mtp_block_spec).
    """
    depths, mtp = job.training.mtp, model.mtp
    if mtp is None and depths is not None and depths.num_layers:
        kind = model.pattern[-1]
        if len(model.layer_kinds[kind].blocks) > 1:
            norms = model.final_norms[:1] * 3
            mtp = MultiTokenPrediction(num_layers=depths.num_layers, layer_kind=kind, norms=norms)
    if mtp is not None and framework.mtp_use_repeated_layer:
        mtp = mtp.model_copy(update={"repeated": True})
    return model if mtp is model.mtp else model.model_copy(update={"mtp": mtp})


def _defaults(job: Job, backend: str) -> dict[str, tuple[Any, Origin, str]]:
    """Values that frameworks have different defaults for, as Megatron has them."""
    optimizer = job.training.optimizer
    found: dict[str, tuple[Any, Origin, str]] = {}
    for name in ("exp_avg_dtype", "exp_avg_sq_dtype"):
        if getattr(optimizer, name) is None:
            found[f"/training/optimizer/{name}"] = ("fp32", "framework", "Megatron's moments")
    if job.training.hidden_dropout is None:
        found["/training/hidden_dropout"] = (0.0, "framework", "no dropout")
    if job.training.attention.dropout is None:
        found["/training/attention/dropout"] = (0.0, "framework", "no dropout")
    if job.training.attention.backend == "auto":
        why = "TransformerEngine's choice for the GPU; fused where none is named"
        found["/training/attention/backend"] = (backend, "framework", why)
    return found

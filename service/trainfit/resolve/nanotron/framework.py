"""nanotron, to whoever resolves a job of it. Sources: nanotron's config/parallelism_config.py,
config/config.py, helpers.py (init_optimizer_and_grad_accumulator).
"""

from collections.abc import Iterator
from typing import Any

from trainfit.resolve.batch import resolve_batch
from trainfit.resolve.defaults import derived, padded_vocabulary, resolved_defaults
from trainfit.resolve.findings import Findings, put
from trainfit.resolve.framework import Conventions
from trainfit.resolve.honoured import remarks
from trainfit.resolve.layout import resolve_layout
from trainfit.resolve.nanotron.blocks import check_model, check_shares, shares_of
from trainfit.resolve.nanotron.plan import NanotronPlan, NanotronStep
from trainfit.resolve.plan import (
    Default,
    Layout,
    LeftOpen,
    MicroBatches,
    ModelSource,
    Origin,
    TargetGpu,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.framework import Nanotron
from trainfit.specs.job import Job
from trainfit.specs.precision import Precision

IN_FP32 = Precision()
IN_BF16 = Precision(gradients="bf16", main_params="bf16")
PRECISIONS = {"bf16": IN_FP32, "bf16-pure": IN_BF16}
"""With accumulate_grad_in_fp32, and without."""


def conventions(job: Job) -> Conventions:
    """tp_mode ALL_REDUCE and pp_engine afab where nothing else is said; layers are shared out by
    their cost.
    """
    framework = job.framework
    assert isinstance(framework, Nanotron)

    def split(model: ModelSpec, stages: int) -> tuple[int, ...] | None:
        shares = shares_of(model, _rows(job, framework, model), stages)
        return None if shares is None else shares.layers

    return Conventions(
        sharding="optim" if job.parallelism.use_distributed_optimizer else "no_shard",
        schedule="gpipe",
        shares_sequence=False,
        split=split,
    )


def _rows(job: Job, framework: Nanotron, model: ModelSpec) -> int:
    multiple, tp = framework.make_vocab_size_divisible_by, job.parallelism.tp
    return padded_vocabulary(model.embedding.rows, multiple, tp)


def not_modelled(job: Job) -> Iterator[tuple[str, str]]:
    """nanotron has neither fp16 nor fp32 in training, and two of PyTorch's optimizers."""
    training = job.training
    if _precision(training.precision) not in (IN_FP32, IN_BF16):
        yield "/training/precision", "a precision but bf16 and bf16-pure under nanotron"
    if training.optimizer.name not in ("adam", "sgd"):
        yield "/training/optimizer/name", f"{training.optimizer.name} under nanotron"
    if training.recompute.granularity == "selective":
        yield "/training/recompute/granularity", "selective recompute under nanotron"
    if training.mtp is not None and training.mtp.num_layers:
        yield "/training/mtp/num_layers", "multi-token prediction under nanotron"
    if training.attention.dropout:
        yield "/training/attention/dropout", "dropout under nanotron"
    if training.hidden_dropout:
        yield "/training/hidden_dropout", "dropout under nanotron"


def _precision(given: str | Precision) -> Precision | None:
    return given if isinstance(given, Precision) else PRECISIONS.get(given)


def plan(
    job: Job, model: ModelSpec, source: ModelSource, gpu: TargetGpu, findings: Findings
) -> NanotronPlan:
    framework, training = job.framework, job.training
    assert isinstance(framework, Nanotron)
    check_model(model, findings)
    findings.refuse()
    own = conventions(job)
    rows = _rows(job, framework, model)
    layout = resolve_layout(job, model, 0, own, findings)
    batch = resolve_batch(job, layout, own, findings)
    check_shares(model, rows, layout.pipeline.pp, findings)
    _check_filled(layout, batch, findings)
    findings.refuse()
    optimizer = training.optimizer.name
    assert optimizer in ("adam", "sgd")
    step = NanotronStep(
        accumulates_in_fp32=_precision(training.precision) == IN_FP32,
        optimizer=optimizer,
        recomputes_layers=training.recompute.granularity == "full",
    )

    def left_open() -> tuple[Default, ...]:
        found = derived(job, model, layout, batch, 0)
        return resolved_defaults(job, found | _defaults(job, step, layout))

    return NanotronPlan(
        model=model,
        source=source,
        vocabulary_rows=rows,
        mtp_layers=0,
        layout=layout,
        batch=batch,
        step=step,
        framework=framework,
        gpu=gpu,
        defaults=LeftOpen(left_open),
        remarks=remarks(job),
    )


def _check_filled(layout: Layout, batch: MicroBatches, findings: Findings) -> None:
    """Source: parallel/pipeline_parallel/engine.py (OneForwardOneBackwardPipelineEngine)."""
    least = layout.pipeline.pp - 1
    if layout.pipeline.schedule == "1f1b" and batch.num_microbatches < least:
        pointer = "/training/num_microbatches"
        message = f"1f1b over {layout.pipeline.pp} ranks needs {least} micro-batches or more"
        findings.add(pointer, "interleaving", message, put(pointer, least))


def _defaults(job: Job, step: NanotronStep, layout: Layout) -> dict[str, tuple[Any, Origin, str]]:
    """Values that frameworks have different defaults for, as nanotron has them."""
    given, training = job.parallelism, job.training
    found: dict[str, tuple[Any, Origin, str]] = {}
    if given.sequence_parallel is None:
        why = "nanotron's tp_mode is ALL_REDUCE"
        found["/parallelism/sequence_parallel"] = (False, "framework", why)
    if given.pipeline_schedule is None:
        why = "nanotron's pp_engine is afab: all forwards, then all backwards"
        found["/parallelism/pipeline_schedule"] = (layout.pipeline.schedule, "framework", why)
    own = "fp32" if step.accumulates_in_fp32 else "bf16"
    for name in ("exp_avg_dtype", "exp_avg_sq_dtype"):
        why = "moments are as the parameters that are stepped"
        found[f"/training/optimizer/{name}"] = (own, "framework", why)
    if training.attention.backend == "auto":
        why = "nanotron's Llama has FlashAttention only"
        found["/training/attention/backend"] = ("flash", "framework", why)
    for name, dropout in (
        ("hidden_dropout", training.hidden_dropout),
        ("attention/dropout", training.attention.dropout),
    ):
        if dropout is None:
            found[f"/training/{name}"] = (0.0, "framework", "no dropout")
    return found

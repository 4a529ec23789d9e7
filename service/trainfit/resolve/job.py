"""Job -> Plan: every default filled in, and what does not hold together refused."""

from math import ceil
from typing import Any

from trainfit.resolve.defaults import derived_layout, resolved_defaults
from trainfit.resolve.findings import Findings
from trainfit.resolve.layout import resolve_layout
from trainfit.resolve.not_modelled import refuse_not_modelled
from trainfit.resolve.plan import Batch, Card, Layout, Origin, Plan, Source, Step
from trainfit.resolve.training import resolve_batch, resolve_routing, resolve_step
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.framework import Megatron
from trainfit.specs.job import Job

NO_CARD = Card("", 0, "")


def resolve(job: Job, model: ModelSpec, source: Source, card: Card = NO_CARD) -> Plan:
    """The Plan of a job for a model that was looked up.

    Raises RefusedError with every finding: an option that is not modelled, a size that does not
    divide, options that contradict each other. Each finding says what would be right.
    """
    findings = Findings()
    refuse_not_modelled(job, findings)
    assert isinstance(job.framework, Megatron)
    mtp_layers = _mtp_layers(job, model, findings)
    layout = resolve_layout(job, model, mtp_layers, findings)
    batch = resolve_batch(job, layout, findings)
    step = resolve_step(job, layout, model.num_layers, card, findings)
    routing = resolve_routing(job, findings)
    findings.refuse()
    return Plan(
        model=model,
        source=source,
        vocabulary_rows=padded_vocabulary(model.embedding.rows, job.framework, layout.tp),
        mtp_layers=mtp_layers,
        layout=layout,
        batch=batch,
        step=step,
        routing=routing,
        framework=job.framework,
        card=card,
        defaults=resolved_defaults(job, _derived(job, model, layout, batch, step, mtp_layers)),
    )


def padded_vocabulary(rows: int, framework: Megatron, tp: int) -> int:
    """V rounded up to a multiple of make_vocab_size_divisible_by * tp.

    Source: Megatron-LM's vocab_size_with_padding.
    """
    multiple = framework.make_vocab_size_divisible_by * tp
    return ceil(rows / multiple) * multiple


def _mtp_layers(job: Job, model: ModelSpec, findings: Findings) -> int:
    declared = model.mtp.num_layers if model.mtp is not None else 0
    if job.training.mtp is None:
        return declared
    wanted = job.training.mtp.num_layers
    if wanted and not declared:
        findings.add(
            "/training/mtp/num_layers",
            "no_mtp",
            "the model declares no multi-token-prediction layers",
        )
    return wanted


def _derived(
    job: Job, model: ModelSpec, layout: Layout, batch: Batch, step: Step, mtp_layers: int
) -> dict[str, tuple[Any, Origin, str]]:
    derived = {
        pointer: (value, origin, why) for pointer, value, origin, why in derived_layout(job, layout)
    }
    training = job.training
    if training.num_microbatches is None:
        why = (
            "global_batch_size / (micro_batch_size * dp)"
            if training.global_batch_size is not None
            else "enough to keep the pipeline full"
        )
        derived["/training/num_microbatches"] = (batch.num_microbatches, "derived", why)
    if training.mtp is None and model.mtp is not None:
        value = {"num_layers": mtp_layers}
        derived["/training/mtp"] = (value, "config", "the depths that the config declares")
    if training.attention.backend == "auto":
        derived["/training/attention/backend"] = (
            step.attention_backend,
            "framework",
            "TransformerEngine's choice for the card; fused where none is named",
        )
    return derived

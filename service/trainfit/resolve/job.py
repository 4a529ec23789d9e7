"""Job -> Plan: every default filled in, and what does not hold together refused."""

from math import ceil
from typing import Any

from trainfit.resolve.defaults import derived_layout, resolved_defaults
from trainfit.resolve.findings import Findings, put
from trainfit.resolve.gpu import NO_GPU
from trainfit.resolve.honoured import remarks
from trainfit.resolve.layout import resolve_layout
from trainfit.resolve.not_modelled import refuse_not_modelled
from trainfit.resolve.plan import (
    Batch,
    Layout,
    MegatronPlan,
    Origin,
    Plan,
    PytorchPlan,
    PytorchStep,
    Source,
    TargetGpu,
)
from trainfit.resolve.pytorch.freezing import with_frozen_layers
from trainfit.resolve.pytorch.pipelining import check_pipeline
from trainfit.resolve.pytorch.step import resolve_pytorch_step
from trainfit.resolve.training import (
    check_token_overlap,
    resolve_batch,
    resolve_routing,
    resolve_step,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.framework import Megatron, Torchtitan, Transformers
from trainfit.specs.job import Job


def resolve(job: Job, model: ModelSpec, source: Source, gpu: TargetGpu = NO_GPU) -> Plan:
    """The Plan of a job for a model that was looked up.

    Raises RefusedError with every finding: an option that is not modelled, a size that does not
    divide, options that contradict each other. Each finding says what would be right.
    """
    findings = Findings()
    refuse_not_modelled(job, findings)
    job = _within_positions(job, model, findings)
    if isinstance(job.framework, Megatron):
        return _megatron(job, job.framework, model, source, gpu, findings)
    return _pytorch(job, job.framework, model, source, gpu, findings)


def _megatron(
    job: Job,
    framework: Megatron,
    model: ModelSpec,
    source: Source,
    gpu: TargetGpu,
    findings: Findings,
) -> MegatronPlan:
    mtp_layers = _mtp_layers(job, model, findings)
    layout = resolve_layout(job, model, mtp_layers, findings)
    batch = resolve_batch(job, layout, findings)
    step = resolve_step(job, layout, model.num_layers, gpu, findings)
    routing = resolve_routing(job, findings)
    check_token_overlap(job, layout, mtp_layers, findings)
    findings.refuse()
    backend = step.attention_backend
    derived = _derived(job, model, layout, batch, backend, mtp_layers)
    return MegatronPlan(
        model=model,
        source=source,
        vocabulary_rows=padded_vocabulary(model.embedding.rows, framework, layout.tp),
        mtp_layers=mtp_layers,
        layout=layout,
        batch=batch,
        step=step,
        routing=routing,
        framework=framework,
        gpu=gpu,
        defaults=resolved_defaults(job, derived | _megatron_defaults(job)),
        remarks=remarks(job),
    )


def _pytorch(
    job: Job,
    framework: Torchtitan | Transformers,
    model: ModelSpec,
    source: Source,
    gpu: TargetGpu,
    findings: Findings,
) -> PytorchPlan:
    """torchtitan and transformers train no multi-token prediction, and pad no vocabulary."""
    model = with_frozen_layers(model, job.training)
    layout = resolve_layout(job, model, 0, findings)
    batch = resolve_batch(job, layout, findings)
    check_pipeline(job, framework, layout, batch.num_microbatches, findings)
    step = resolve_pytorch_step(job, model, layout, findings)
    findings.refuse()
    derived = _derived(job, model, layout, batch, step.attention_backend, 0)
    return PytorchPlan(
        model=model,
        source=source,
        vocabulary_rows=model.embedding.rows,
        mtp_layers=0,
        layout=layout,
        batch=batch,
        step=step,
        framework=framework,
        gpu=gpu,
        defaults=resolved_defaults(job, derived | _pytorch_defaults(job, step)),
        remarks=remarks(job),
    )


def padded_vocabulary(rows: int, framework: Megatron, tp: int) -> int:
    """V rounded up to a multiple of make_vocab_size_divisible_by * tp.

    Source: Megatron-LM's vocab_size_with_padding.
    """
    multiple = framework.make_vocab_size_divisible_by * tp
    return ceil(rows / multiple) * multiple


def _within_positions(job: Job, model: ModelSpec, findings: Findings) -> Job:
    """Learned positions are rows of a table, of which a longer sequence finds none. Where no length
    is given it is that of the table, if the usual one is longer.
    """
    known = _learned_positions(model)
    training = job.training
    if known is None or training.seq_length <= known:
        return job
    if "seq_length" not in training.model_fields_set:
        values = dict(training) | {"seq_length": known}
        within = type(training).model_construct(training.model_fields_set, **values)
        return job.model_copy(update={"training": within})
    pointer = "/training/seq_length"
    message = f"the model has learned {known} positions, and a run ends at the next one"
    findings.add(pointer, "conflict", message, put(pointer, known))
    return job


def _learned_positions(model: ModelSpec) -> int | None:
    rows = model.embedding.position_rows
    return min(rows, model.max_position_embeddings or rows) or None


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
    job: Job, model: ModelSpec, layout: Layout, batch: Batch, backend: str, mtp_layers: int
) -> dict[str, tuple[Any, Origin, str]]:
    derived = {
        pointer: (value, origin, why) for pointer, value, origin, why in derived_layout(job, layout)
    }
    training = job.training
    if training.num_microbatches is None:
        why = "enough to keep the pipeline full"
        if training.global_batch_size is not None:
            why = "global_batch_size / (micro_batch_size * dp)"
        elif batch.num_microbatches == 1:
            why = "no accumulation of gradients"
        derived["/training/num_microbatches"] = (batch.num_microbatches, "derived", why)
    if "seq_length" not in training.model_fields_set and batch.seq_length == _learned_positions(
        model
    ):
        why = "the positions that the model has learned"
        derived["/training/seq_length"] = (batch.seq_length, "config", why)
    if training.mtp is None and model.mtp is not None:
        value = {"num_layers": mtp_layers}
        derived["/training/mtp"] = (value, "config", "the depths that the config declares")
    if training.attention.backend == "auto":
        why = "scaled_dot_product_attention, unless scores are capped or have sinks"
        if isinstance(job.framework, Megatron):
            why = "TransformerEngine's choice for the card; fused where none is named"
        derived["/training/attention/backend"] = (backend, "framework", why)
    return derived


def _megatron_defaults(job: Job) -> dict[str, tuple[Any, Origin, str]]:
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
    return found


WIDTHS = {4: "fp32", 2: "bf16"}


def _pytorch_defaults(job: Job, step: PytorchStep) -> dict[str, tuple[Any, Origin, str]]:
    """The same as PyTorch, or the model's config, has them."""
    optimizer = job.training.optimizer
    found: dict[str, tuple[Any, Origin, str]] = {}
    own = WIDTHS[step.states.master or step.states.gradients]
    for name in ("exp_avg_dtype", "exp_avg_sq_dtype"):
        if getattr(optimizer, name) is None:
            why = "moments are as the parameters that are stepped"
            found[f"/training/optimizer/{name}"] = (own, "framework", why)
    peft = job.training.peft
    base = step.adapters.base_dtype if step.adapters is not None else None
    if peft is not None and peft.base_dtype is None and base is not None:
        why = "as transformers loads a checkpoint"
        if peft.quantization is not None:
            why = "as prepare_model_for_kbit_training leaves what is not quantised"
        elif base == "fp32":
            why = "as mixed precision of FSDP keeps what is trained"
        found["/training/peft/base_dtype"] = (base, "framework", why)
    if isinstance(job.framework, Transformers) and job.framework.data_parallel_engine is None:
        engine = step.data_parallelism.engine
        why = "ddp where nothing is shared out, else fsdp2"
        found["/framework/data_parallel_engine"] = (engine, "derived", why)
    return found

"""The micro-batches of one step."""

from math import ceil

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.framework import Conventions
from trainfit.resolve.plan import Layout, MicroBatches
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.job import Job


def resolve_batch(
    job: Job, layout: Layout, conventions: Conventions, findings: Findings
) -> MicroBatches:
    """Micro-batches per step, from either way of saying it; if none, enough to fill the pipeline,
    or one where there is none and the framework does not accumulate.
    """
    training = job.training
    size = training.micro_batch_size
    count = training.num_microbatches
    total = training.global_batch_size
    if total is not None:
        per_step = size * layout.dp
        if total % per_step:
            nearest = max(1, round(total / per_step)) * per_step
            findings.add(
                "/training/global_batch_size",
                "batch_not_divisible",
                f"{total} samples are no multiple of micro_batch_size * dp = {per_step}; "
                f"{nearest} are",
                put("/training/global_batch_size", nearest),
            )
        elif count not in (None, total // per_step):
            findings.add(
                "/training/num_microbatches",
                "conflict",
                f"global_batch_size {total} makes {total // per_step} micro-batches",
            )
        count = max(1, total // per_step)
    if count is None:
        single = layout.pipeline.pp == 1 and not conventions.accumulates
        count = 1 if single else steady_microbatches(layout)
    return MicroBatches(size, count, training.seq_length, training.image_tokens)


def check_images(job: Job, model: ModelSpec, findings: Findings, *, followed: bool) -> None:
    """Images go through a tower whose activations are `followed`, if there are any."""
    tokens, where = job.training.image_tokens, "/training/image_tokens"
    if not tokens:
        return
    if not model.encoder_parameters:
        message = "this model has no tower for images"
        findings.add(where, "conflict", message, put(where, None))
    elif tokens > job.training.seq_length:
        message = f"a sample has {job.training.seq_length} tokens"
        findings.add(where, "conflict", message, put(where, job.training.seq_length))
    elif model.encoder is None or not followed:
        message = "the activations of this model's tower are not known, or not of eager attention"
        findings.add(where, "not_modelled", message, put(where, None))


def steady_microbatches(layout: Layout) -> int:
    """Enough micro-batches that the pipeline runs full and has begun to drain on every rank."""
    group = layout.pipeline.microbatch_group_size
    warm_up = 2 * (layout.pipeline.pp - 1) + (layout.pipeline.vpp - 1) * group + 2
    return max(2, group * (ceil(warm_up / (group * layout.pipeline.vpp)) + 1))

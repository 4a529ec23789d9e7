"""The micro-batches of one step."""

from math import ceil

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.framework import Conventions
from trainfit.resolve.plan import Layout, LengthSpread, MicroBatches
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.job import Job
from trainfit.specs.training import Lengths


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
    longest = training.seq_length
    spread = _spread(training.lengths, size, longest, findings)
    return MicroBatches(size, count, longest, training.image_tokens, spread)


def _spread(
    lengths: Lengths | None, samples: int, longest: int, findings: Findings
) -> LengthSpread | None:
    """What is known of lengths, where these differ."""
    if lengths is None:
        return None
    quantiles, where = lengths.quantiles, "/training/lengths"
    if lengths.mean is not None and quantiles:
        message = "a mean and quantiles say the same thing twice"
        findings.add(f"{where}/mean", "conflict", message, put(f"{where}/mean", None))
    if list(quantiles) != sorted(quantiles):
        message = "quantiles ascend"
        findings.add(
            f"{where}/quantiles", "conflict", message, put(f"{where}/quantiles", sorted(quantiles))
        )
    said = max((lengths.mean or 0, *quantiles))
    if said > longest:
        message = f"no sample is longer than seq_length, {longest}"
        findings.add(where, "conflict", message, put("/training/seq_length", said))
    return LengthSpread(
        longest=longest,
        samples=1 if lengths.group_by_length else samples,
        mean=lengths.mean,
        quantiles=tuple(quantiles),
        multiple=lengths.pad_to_multiple_of,
        longest_first=lengths.group_by_length,
    )


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

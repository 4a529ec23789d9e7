"""Changes to a job that lower what it needs on a card, one at a time, the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator

from trainfit.decisions.candidates import layouts, megatron, pytorch
from trainfit.decisions.candidates.candidate import Candidate, Price
from trainfit.specs.framework import Megatron
from trainfit.specs.job import Job


def candidates(job: Job, num_gpus: int) -> Iterator[Candidate]:
    """Single changes to a job that runs on `num_gpus` GPUs, the cheapest first."""
    if isinstance(job.framework, Megatron):
        yield from megatron.switches(job, job.framework)
    else:
        yield from pytorch.switches(job, job.framework)
    yield from layouts.micro_batches(job)
    yield from layouts.sharding(job)
    yield from layouts.sizes(job, num_gpus)
    yield from layouts.pipeline(job)
    if isinstance(job.framework, Megatron):
        yield from megatron.precision(job)
        yield from megatron.recompute(job, job.framework)
        yield from megatron.offload(job)
    else:
        yield from pytorch.precision(job)
        yield from pytorch.checkpointing(job)
    yield Candidate(
        {"/parallelism/num_gpus": 2 * num_gpus},
        Price.GPUS,
        f"{2 * num_gpus} GPUs instead of {num_gpus}, all of them data-parallel",
    )
    if job.training.seq_length > 1:
        yield Candidate(
            {"/training/seq_length": job.training.seq_length // 2},
            Price.TASK,
            "the model is trained on sequences of half the length",
        )

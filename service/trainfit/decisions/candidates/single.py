"""Changes to a job that lower what it needs on a card, one at a time, the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from trainfit.decisions.candidates import layouts, megatron, nanotron, pytorch
from trainfit.decisions.candidates.candidate import Candidate, Price
from trainfit.specs.framework import FrameworkName
from trainfit.specs.job import Job


class Offers(Protocol):
    """What a framework offers to those who want for memory."""

    def switches(self, job: Job) -> Iterator[Candidate]:
        """What gives next to nothing up."""

    def trades(self, job: Job) -> Iterator[Candidate]:
        """What memory is bought with."""


OFFERS: Mapping[FrameworkName, Offers] = {
    "megatron": megatron,
    "torchtitan": pytorch,
    "transformers": pytorch,
    "nanotron": nanotron,
}


def candidates(job: Job, num_gpus: int) -> Iterator[Candidate]:
    """Single changes to a job that runs on `num_gpus` GPUs, the cheapest first."""
    offers = OFFERS[job.framework.name]
    yield from offers.switches(job)
    yield from layouts.micro_batches(job)
    yield from layouts.sharding(job)
    yield from layouts.sizes(job, num_gpus)
    yield from layouts.pipeline(job)
    yield from offers.trades(job)
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

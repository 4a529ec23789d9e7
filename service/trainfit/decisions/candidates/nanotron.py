"""What nanotron offers: switches, states in bf16, layers that run again."""

from __future__ import annotations

from collections.abc import Iterator

from trainfit.decisions.candidates.candidate import RECOMPUTE, Candidate, Price
from trainfit.specs.framework import Nanotron
from trainfit.specs.job import Job


def switches(job: Job) -> Iterator[Candidate]:
    """What gives next to nothing up, where it is not on already."""
    layout, framework = job.parallelism, job.framework
    assert isinstance(framework, Nanotron)
    for name, cost in (
        ("tp_recompute_allgather", "inputs of linears are gathered a second time in backward"),
        ("torch_adam_is_fused", "none: a faster kernel"),
        (
            "expandable_segments",
            "none to speak of; set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
    ):
        if not getattr(framework, name):
            yield Candidate({f"/framework/{name}": True}, Price.NOTHING, cost)
    if layout.tp > 1 and not layout.sequence_parallel:
        yield Candidate(
            {"/parallelism/sequence_parallel": True},
            Price.NOTHING,
            "none to speak of: tp_mode REDUCE_SCATTER exchanges as many bytes, in two steps",
        )
    if layout.pipeline_schedule != "1f1b" and job.training.num_microbatches != 1:
        yield Candidate(
            {"/parallelism/pipeline_schedule": "1f1b"},
            Price.NOTHING,
            "none: pp_engine 1f1b starts a backward as soon as it can",
        )


def trades(job: Job) -> Iterator[Candidate]:
    """What memory is bought with: precision and time."""
    if job.training.precision == "bf16":
        yield Candidate(
            {"/training/precision": "bf16-pure"},
            Price.PRECISION,
            "accumulate_grad_in_fp32 off: no fp32 master weights; small updates are rounded away",
        )
    if job.training.recompute.granularity is None:
        yield Candidate(
            {RECOMPUTE: {"granularity": "full"}},
            Price.RECOMPUTATION,
            "recompute_layer: the whole forward is computed twice",
        )

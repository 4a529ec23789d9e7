"""What torch.distributed.pipelining asks of a step (schedules.py), and how torchtitan shares layers
out (distributed/pipeline_parallel.py: generate_llm_fqn_per_model_part).
"""

from collections.abc import Iterator
from math import ceil

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.plan import Layout
from trainfit.specs.framework import Torchtitan, Transformers
from trainfit.specs.job import Job
from trainfit.specs.parallelism import SPLIT_BACKWARD
from trainfit.specs.training import Training

COUNT = "/training/num_microbatches"


def weighed(layers: int, stages: int) -> tuple[int, ...] | None:
    """Layers of each stage where embedding and head count as a layer each, and no stage has to be
    like another; None of stages that layers have to be shared out evenly over.
    """
    if not 1 < stages <= layers:
        return None
    each, more = divmod(layers + 2, stages)
    counts = [each + (stage < more) for stage in range(stages)]
    counts[0] -= 1
    counts[-1] -= 1
    return tuple(counts)


def check_pipeline(
    job: Job,
    framework: Torchtitan | Transformers,
    layout: Layout,
    microbatches: int,
    findings: Findings,
) -> None:
    """A finding for everything that PyTorch refuses to run, or that is not modelled."""
    if layout.pipeline.pp == 1:
        return
    group = job.parallelism.microbatch_group_size_per_vp_stage
    if group not in (None, layout.pipeline.pp):
        pointer = "/parallelism/microbatch_group_size_per_vp_stage"
        message = "PyTorch derives the group from the number of micro-batches"
        findings.add(pointer, "schedule", message, put(pointer, layout.pipeline.pp))
    _check_microbatches(layout, microbatches, findings)
    if layout.pipeline.schedule in SPLIT_BACKWARD:
        for pointer, what, value in _not_in_two(job.training, framework):
            message = f"{layout.pipeline.schedule} runs backward in two, which {what}"
            findings.add(pointer, "schedule", message, put(pointer, value))


def _check_microbatches(layout: Layout, count: int, findings: Findings) -> None:
    """1F1B and DualPipe-V have to be filled; interleaved rounds are alike."""
    p, schedule = layout.pipeline.pp, layout.pipeline.schedule
    least = {"1f1b": p, "dualpipe-v": 2 * p}.get(schedule, 1)
    rounds = max(1, count // p) if schedule in ("interleaved", "interleaved-zb") else 1
    if count < least:
        message = f"{schedule} over {p} ranks needs {least} micro-batches or more, not {count}"
        findings.add(COUNT, "interleaving", message, put(COUNT, least))
    elif count % rounds:
        nearest = ceil(count / p) * p
        message = (
            f"{count} micro-batches do not divide into {rounds} rounds of {p} or more; {nearest} do"
        )
        findings.add(COUNT, "interleaving", message, put(COUNT, nearest))


def _not_in_two(
    training: Training, framework: Torchtitan | Transformers
) -> Iterator[tuple[str, str, object]]:
    """Pointers, why a backward in two is not run so, and values with which it is."""
    selective = training.recompute.granularity == "selective"
    if selective and training.recompute.every_nth_layer == 1:
        pointer = "/training/recompute/granularity"
        yield pointer, "PyTorch refuses under selective checkpointing by operations", "full"
    if framework.compile:
        yield "/framework/compile", "PyTorch does not with compiled modules", False
    if training.peft is not None:
        yield "/training/peft", "is not modelled with adapters", None
    if training.frozen or training.num_frozen_layers:
        where = "frozen" if training.frozen else "num_frozen_layers"
        value: object = [] if training.frozen else 0
        yield f"/training/{where}", "is not modelled with frozen weights", value

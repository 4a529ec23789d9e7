"""What a launch is to do, whatever its layout: the job of it that is left open to a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfit.launch.fields import named_as_fields
from trainfit.launch.overriding import replaces
from trainfit.launch.reading import LaunchReading

LAYOUT: Mapping[str, tuple[str, ...]] = {
    "parallelism": (
        "tp",
        "pp",
        "vpp",
        "num_layers_per_virtual_pipeline_stage",
        "cp",
        "hierarchical_context_parallel_sizes",
        "ep",
        "etp",
        "sequence_parallel",
        "num_layers_in_first_pipeline_stage",
        "num_layers_in_last_pipeline_stage",
        "account_for_embedding_in_pipeline_split",
        "account_for_loss_in_pipeline_split",
        "pipeline_model_parallel_layout",
        "pipeline_schedule",
        "microbatch_group_size_per_vp_stage",
        "use_distributed_optimizer",
        "data_parallel_sharding_strategy",
        "data_parallel_replicate_size",
    ),
    "training": (
        "micro_batch_size",
        "num_microbatches",
        "recompute",
        "offload_modules",
        "offload_activations",
    ),
}
"""Fields that decide how a task is run, and not what it is."""


def task_of(reading: LaunchReading, *, any_gpus: bool) -> dict[str, Any]:
    """The job of a launch without what it says of the layout, but for what was said over it. Its
    number of GPUs is part of the task, unless it may be `any`.
    """
    said = named_as_fields(reading.source.overrides)
    job = {**reading.job}
    for part, names in LAYOUT.items():
        gone = {each for each in names if not replaces(said, f"/{part}/{each}")}
        if any_gpus and part == "parallelism" and not replaces(said, "/parallelism/num_gpus"):
            gone.add("num_gpus")
        job[part] = {name: it for name, it in job.get(part, {}).items() if name not in gone}
    samples = _samples(reading.job)
    if samples is not None and "num_microbatches" not in job["training"]:
        job["training"].setdefault("global_batch_size", samples)
    return job


def _samples(job: Mapping[str, Any]) -> int | None:
    """The samples of a step; None where the launch says neither them nor all that they follow
    from.
    """
    layout, training = job.get("parallelism", {}), job.get("training", {})
    if "global_batch_size" in training:
        return int(training["global_batch_size"])
    count, num_gpus = training.get("num_microbatches"), layout.get("num_gpus")
    if count is None or num_gpus is None:
        return None
    replica = layout.get("tp", 1) * layout.get("pp", 1) * layout.get("cp", 1)
    return int(training.get("micro_batch_size", 1) * count * (num_gpus // replica))

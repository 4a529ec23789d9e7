"""Rows of nanotron's benchmark, as its authors published them -> jobs.

What the rows leave out scripts/scaling_benchmarks.py says: communication is asynchronous under
REDUCE_SCATTER.
"""

from __future__ import annotations

from typing import Any

from tests.accuracy import published_runs
from tests.accuracy.outcomes import NotStatedError
from trainfit.specs.job import Job

Row = dict[str, Any]


def job_of(row: Row) -> Job:
    """The job of a row of `measured.jsonl` or `runs.jsonl`."""
    model, layout, training = row["model"], row["parallelism"], row["training"]
    if training["micro_batch"] is None or training["seq_len"] is None:
        raise NotStatedError("the micro-batch or the sequence length is not stated")
    if layout["sharding"] is None:
        raise NotStatedError("the ZeRO stage is not stated")
    scatters = layout["tp_mode"] == "REDUCE_SCATTER"
    return Job.model_validate(
        {
            "model": {"spec": published_runs.model_of(model, training["seq_len"])},
            "parallelism": {
                "num_gpus": layout["world_size"],
                "tp": layout["tp"],
                "pp": layout["pp"],
                "sequence_parallel": scatters and layout["tp"] > 1,
                "pipeline_schedule": layout["schedule"],
                "use_distributed_optimizer": layout["sharding"] == "zero1",
            },
            "training": {
                "micro_batch_size": training["micro_batch"],
                "num_microbatches": training["num_microbatches"],
                "seq_length": training["seq_len"],
                "precision": "bf16",
                "recompute": published_runs.recompute_of(training["recompute"]),
            },
            "framework": {"name": "nanotron", "tp_linear_async_communication": scatters},
            "gpu": published_runs.gpu_of(row),
        }
    )

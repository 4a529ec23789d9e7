"""Megatron-LM's command line, as continuous-integration rows give it -> a job.

A row's arguments are written out as the command line that they came from, and read as any launch.
An option that the service does not model makes the row unusable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.accuracy.outcomes import UnusableRowError
from tests.accuracy.published_runs import gpu_of
from trainfit.launch.errors import LaunchError
from trainfit.launch.read import read_launch
from trainfit.specs.job import Job
from trainfit.specs.launch import Launch

Row = dict[str, Any]


def job_of(row: Row) -> Job:
    """The job of a row with `training.raw_args`. Vocabulary and world size are the row's."""
    try:
        reading = read_launch(launch_of(row))
    except LaunchError as error:
        raise UnusableRowError(f"its command line: {error}") from None
    if unsupported := reading.launch.account.unsupported:
        names = sorted(each.key.removeprefix("--") for each in unsupported)
        raise UnusableRowError(f"a job has no field for {', '.join(names)}")
    return Job.model_validate(reading.job)


def launch_of(row: Row) -> Launch:
    """A row as what a team would send of its run."""
    return Launch(
        argv=("pretrain_gpt.py", *_words(row["training"]["raw_args"])),
        overrides={
            "model": {"spec": {"vocab_size": row["model"]["vocab"]}},
            "parallelism": {"num_gpus": row["parallelism"]["world_size"]},
        },
        gpu=gpu_of(row),
    )


def _words(arguments: Row) -> Iterator[str]:
    """Flags are true in a row, and lists stand in brackets."""
    for name, value in arguments.items():
        yield f"--{name}"
        if value is not True:
            text = str(value)
            yield from text[1:-1].split() if text.startswith("[") else [text]

"""Rows with the peak memory of a real training run, as its authors published it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.accuracy import (
    command_line,
    dealt_parameters,
    functional_tests,
    nanotron_runs,
    published_runs,
    pytorch_runs,
)
from tests.accuracy.outcomes import Memory, NotStatedError, UnusableRowError, memory
from trainfit.estimator.results import Interval, Stage
from trainfit.questions.estimate import answer
from trainfit.questions.estimate_answer import EstimateAnswer
from trainfit.specs.job import Job

Row = dict[str, Any]

ANSWERED: dict[str, EstimateAnswer] = {}


def group(row: Row) -> str:
    """The first word of the id, with the card where the second word names it; near rows apart, and
    those that are completed from their recipes."""
    first, second = (*row["id"].split("-"), "")[:2]
    card = row["gpu"]["type"].casefold().startswith(second.casefold()) and second
    near = " near" if row.get("near_complete") and not row["complete"] else ""
    completed = " completed" if _is_completed(row) else ""
    return (f"{first}-{second}" if card else first) + near + completed


def price(row: Row, folder: Path) -> dict[str, Memory]:  # noqa: ARG001
    """The run's peak beside the service's; a figure a stage where the row has several."""
    check_usable(row)
    job = job_of(row)
    stages = answered(job).stages
    return {
        suffix: memory(measured_gib, _of_rank(row, job, estimated))
        for suffix, measured_gib, estimated in _pairs(row["measured"], stages)
    }


def _of_rank(row: Row, job: Job, fullest: Interval) -> Interval:
    """The bytes of the rank that was measured."""
    last = "LAST rank" in row["measured"]["what"]
    return dealt_parameters.of_last_rank(job, fullest) if last else fullest


def answered(job: Job) -> EstimateAnswer:
    """The estimate of a run, worked out once: several tests look at it."""
    asked = job.model_dump_json(exclude_unset=True)
    if asked not in ANSWERED:
        ANSWERED[asked] = answer(job)
    return ANSWERED[asked]


def check_usable(row: Row) -> None:
    """Raise UnusableRowError for a row that is no truth of its own."""
    check_trusted(row)
    if row.get("duplicate_measurement_of") is not None:
        raise NotStatedError("the same measurement as another row")
    if not _has_facts(row) and not _is_completed(row):
        raise NotStatedError("incomplete: a formula cannot be run on it without guessing")


def _has_facts(row: Row) -> bool:
    return bool(row["complete"] or row.get("near_complete"))


def _is_completed(row: Row) -> bool:
    return not _has_facts(row) and functional_tests.is_functional_test(row)


def check_trusted(row: Row) -> None:
    if row.get("trusted") is False:
        raise NotStatedError("the row says that it is not to be trusted")


BENCHMARK_CSV = "benchmark CSV memory"
"""nanotron's, which global rank 0 writes. The allocated peak in it would be that of the optimizer's
step alone, since it is reset behind the passes of the first five steps (trainer.py, log_memory):
figures of 80B are twice that, and so are reserved bytes.
"""

PLAIN_MODULES = ("torchtune", "llm-foundry", "litgpt", "lit-gpt", "llamafactory", "automodel")
"""Code bases that run plain PyTorch modules under FSDP or on one card, as transformers does."""

READERS: Mapping[str, Callable[[Row], Job]] = {
    "megatron": published_runs.job_of,
    "torchtitan": partial(pytorch_runs.job_of, framework="torchtitan"),
    "nanotron": nanotron_runs.job_of,
    **dict.fromkeys(PLAIN_MODULES, partial(pytorch_runs.job_of, framework="transformers")),
}
"""Words in a row's framework, and who makes a job of such a row."""


def job_of(row: Row) -> Job:
    """The job of a run: from its command line where the row has one, else by its framework."""
    if "raw_args" in row["training"]:
        whole = functional_tests.completed(row) if _is_completed(row) else row
        return command_line.job_of(functional_tests.as_recorded(whole))
    spelled = row["framework"].casefold()
    for word, reader in READERS.items():
        if word in spelled:
            return reader(row)
    raise UnusableRowError(f"the framework {spelled.split()[0]} is none of the service's")


def _pairs(measured: Row, stages: list[Stage]) -> Iterator[tuple[str, float, Interval]]:
    """Suffix of the row's id, GiB measured, bytes estimated."""
    per_stage = measured.get("per_stage") or {}
    for name, figures in per_stage.items():
        stage = stages[int(name.removeprefix("stage"))]
        suffix = f"#{name}" if len(per_stage) > 1 else ""
        yield suffix, figures["max_allocated_gib"], stage.allocated_bytes
    if not per_stage:
        yield "", measured["value_gib"], _estimated(measured["what"], stages)


def _estimated(what: str, stages: list[Stage]) -> Interval:
    """The bytes that a row's words mean: of which rank, and allocated or reserved."""
    csv = BENCHMARK_CSV in what
    reserved = "reserved" in what or csv
    intervals = [stage.reserved_bytes if reserved else stage.allocated_bytes for stage in stages]
    if "LAST rank" in what:
        return intervals[-1]
    if "rank 0" in what or csv:
        return intervals[0]
    return max(intervals, key=lambda interval: interval.expected)

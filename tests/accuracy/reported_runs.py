"""Public runs as their authors launched them, with the memory that they reported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.accuracy.outcomes import Memory, UnusableRowError, memory
from trainfit.estimator.results import Interval, Stage
from trainfit.questions.estimate import answer
from trainfit.questions.estimate_answer import EstimateAnswer
from trainfit.questions.launches import read_asked
from trainfit.questions.problems import Problem
from trainfit.specs.job import Job

Row = dict[str, Any]

UNTRUSTED = "contradicts its own log"
"""The group of rows whose stated set-up is not what ran."""
PINNED: Mapping[str, str] = {
    "foundation-model-stack/fms-acceleration scripts/benchmarks/refs/a100_80gb": "torch==2.4.1",
}
"""How sources begin whose requirements, in a file beside them, pin what their rows leave out:
scripts/benchmarks/refs/requirements.txt, requirements_granite.txt and requirements_liger.txt at
876e2ed (of requirements_moe.txt, whose table is a100_80gb_moe.csv, it is 2.6.0)."""
FIGURES: Mapping[str, str] = {
    "max_allocated_gib": "allocated",
    "max_active_gib": "allocated",
    "max_reserved_gib": "reserved",
    "device_gib": "device",
}
"""What a row reports, and the interval that it is held to."""


def group(row: Row) -> str:
    """Rows that leave something open are grouped apart."""
    return f"reported: {row['group']}" + ("" if row["complete"] else " near")


def price(row: Row, folder: Path) -> Mapping[str, Memory]:  # noqa: ARG001
    """A figure for each that the row reports, of the rank that needs most."""
    if row["group"] == UNTRUSTED:
        raise UnusableRowError("the run contradicts its own log")
    result = _estimated(completed(row))
    stage = result.stages[result.binding.pp_rank]
    return {
        f"#{kind}": memory(row["measured"][reported], _interval(stage, kind))
        for reported, kind in FIGURES.items()
        if reported in row["measured"]
    }


def completed(row: Row) -> Row:
    """What is asked, with what the run's own requirements say."""
    ask: Row = row["ask"]
    source = next((each for each in PINNED if row.get("source", "").startswith(each)), None)
    said = ask.get("launch", {}).get("framework_version")
    if source is None or said is None or "torch" in said or "_moe.csv" in row["source"]:
        return ask
    return ask | {"launch": ask["launch"] | {"framework_version": f"{said} {PINNED[source]}"}}


def _estimated(ask: Row) -> EstimateAnswer:
    asked = read_asked(ask, Job)
    if isinstance(asked, Problem):
        raise UnusableRowError(f"refused: {asked.detail}")
    result = asked.answered(lambda job, reading: answer(job, reading=reading))
    if isinstance(result, Problem):
        raise UnusableRowError(f"refused: {result.detail}")
    return result


def _interval(stage: Stage, kind: str) -> Interval:
    intervals = {
        "allocated": stage.allocated_bytes,
        "reserved": stage.reserved_bytes,
        "device": stage.device_bytes,
    }
    return intervals[kind]

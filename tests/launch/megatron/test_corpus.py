"""Command lines of real runs: every complete row of Megatron-LM's continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.accuracy.command_line import launch_of
from tests.accuracy.schemas import rows_of
from trainfit.launch.read import read_launch
from trainfit.specs.job import Job

CORPUS = Path(__file__).parents[2] / "data/corpus/measured.jsonl"
ROWS = [row for row in rows_of(CORPUS) if row["complete"] and "raw_args" in row["training"]]


def test_there_are_rows() -> None:
    assert len(ROWS) >= 40


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_complete_row_is_read_to_its_last_word(row: dict[str, Any]) -> None:
    """That it is priced as it was before is tested with the accuracy of all rows."""
    reading = read_launch(launch_of(row))
    account = reading.launch.account
    assert not account.unsupported
    keys = [each.key for each in account.recognised]
    keys += [each.key for each in account.irrelevant]
    said = {f"--{name}" for name in row["training"]["raw_args"]}
    assert sorted(keys) == sorted(said)
    Job.model_validate(reading.job)

"""`trainfit measurements`, on what runs have printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.measurements.lines import LINES


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text("\n".join(line.text for line in LINES), "utf-8")
    return path


def test_figures_stand_with_their_lines(run: Run, log: Path) -> None:
    done = run(f"measurements {log}")
    assert done.code == 0
    told = " ".join(done.out.split())
    assert "reserved_bytes.all.peak" in told
    assert "num_alloc_retries" in told


def test_json_is_what_http_answers(run: Run, log: Path) -> None:
    read = json.loads(run(f"measurements {log} --format megatron --json").out)
    assert {each["format"] for each in read["measurements"]} == {"megatron"}
    assert read["measurements"][0]["source"] == {"name": str(log), "line": 1}


def test_bytes_that_are_no_text_are_passed_over(run: Run, log: Path) -> None:
    log.write_bytes(b"\xff\xfe\n" + log.read_bytes())
    read = json.loads(run(f"measurements {log} --json").out)
    assert read["measurements"][0]["source"]["line"] == 2


def test_a_log_that_is_not_there_is_refused(run: Run, tmp_path: Path) -> None:
    done = run(f"measurements {tmp_path / 'none.log'}")
    assert done.code == 2
    assert "No such file" in done.err


def test_of_a_log_that_is_too_long_both_ends_are_read_in_their_lines(run: Run, log: Path) -> None:
    """It ends with the error that it was kept for."""
    lines = 40_000
    error = next(line for line in LINES if line.format == "out of memory")
    log.write_text(f"{LINES[0].text}\n" + f"{'x' * 250}\n" * lines + error.text, "utf-8")
    done = run(f"measurements {log} --json")
    assert "lines" in done.err
    assert "are left out" in done.err
    told = json.loads(done.out)["measurements"]
    assert {each["source"]["line"] for each in told} == {1, lines + 2}


@pytest.mark.parametrize("text", ["x" * 9_000_000, "\n" * 9_000_000])
def test_a_log_without_ends_is_refused(run: Run, log: Path, text: str) -> None:
    log.write_text(text, "utf-8")
    done = run(f"measurements {log}")
    assert done.code == 2
    assert "send a part of it" in done.err

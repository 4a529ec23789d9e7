"""`trainfit calibrate`, and what the other commands make of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Run
from trainfit.api.examples import CALIBRATION_EXAMPLES

VALUE: dict[str, Any] = CALIBRATION_EXAMPLES["full-memory"]["value"] or {}
ASKED = VALUE["runs"][0]
JOB = {name: value for name, value in ASKED.items() if name != "run"}


def test_what_it_prints_is_taken_by_the_other_commands(run: Run, tmp_path: Path) -> None:
    job, log, cluster = tmp_path / "job.json", tmp_path / "train.log", tmp_path / "cluster.json"
    job.write_text(json.dumps(JOB), "utf-8")
    log.write_text(ASKED["run"]["artifacts"][0]["text"], "utf-8")
    done = run(f"calibrate --run {job} {log} --driver 570.86.15")
    assert done.code == 0, done.err
    assert json.loads(done.out)["cluster"]["driver"] == "570.86.15"
    cluster.write_text(done.out, "utf-8")
    asked = run(f"estimate --job {job} --calibration {cluster} --json")
    (stage,) = json.loads(asked.out)["stages"]
    assert stage["uncalibrated_device_bytes"] not in (None, stage["device_bytes"])
    checked = json.loads(run(f"fit-check {job} --calibration {cluster} --format json").out)
    assert "calibration" in json.dumps(checked)
    refused = run(f"estimate --job {job} --calibration {job}")
    assert refused.code == 2
    assert "calibration" in refused.err


def test_a_log_that_tells_nothing_is_refused_by_its_place(run: Run, tmp_path: Path) -> None:
    job, log = tmp_path / "job.json", tmp_path / "train.log"
    job.write_text(json.dumps(JOB), "utf-8")
    log.write_text("nothing", "utf-8")
    done = run(f"calibrate --run {job} {log}")
    assert done.code == 2
    assert "no rank tells what its card holds" in done.err

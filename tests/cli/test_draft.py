"""A draft of a job from a launch that nobody knows, at a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.cli.conftest import Run

SCRIPT = "srun -n 16 mytrainer --tp-size 2 --magic 3\n"


def test_a_draft_is_printed_and_is_no_verdict(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(SCRIPT)
    outcome = run(f"job draft {script}")
    assert outcome.code == 0
    job = yaml.safe_load(outcome.out.partition("said")[0])
    assert job["parallelism"] == {"tp": 2}
    assert "# it starts mytrainer" in outcome.out
    assert json.loads(run(f"job draft {script} --json").out)["job"] == job

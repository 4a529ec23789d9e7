"""`trainfit trace`."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

from tests.cli.conftest import Run

JOB = "meta-llama/Llama-3.2-1B --framework transformers --num-gpus 1 --seq-length 2048"


def test_what_is_held_at_the_peak_is_told(run: Run, tmp_path: Path) -> None:
    done = run(f"trace {JOB} -o {tmp_path / 'predicted.pickle'}")
    assert done.code == 0
    told = " ".join(done.out.split())
    assert "allocated in head_backward" in told
    assert "parameters and buffers 130 4.60" in told
    document = pickle.loads((tmp_path / "predicted.pickle").read_bytes())
    assert document["device_traces"][0]


def test_json_is_what_http_answers(run: Run) -> None:
    found = json.loads(run(f"trace {JOB} --json --pp-rank 0").out)
    assert found["moments"][0]["step"] == "load"


def test_a_folder_that_is_not_there_is_named(run: Run) -> None:
    done = run(f"trace {JOB} -o nowhere/predicted.pickle")
    assert done.code == 2
    assert "nowhere/predicted.pickle" in done.err


def test_a_rank_that_does_not_exist_is_refused(run: Run) -> None:
    done = run(f"trace {JOB} --pp-rank 3")
    assert done.code == 2
    assert "pipeline ranks are 0 to 0" in done.err

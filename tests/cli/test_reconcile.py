"""`trainfit reconcile`, on what a run has printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from trainfit.api.examples import RECONCILE_EXAMPLES

VALUE: dict[str, Any] = RECONCILE_EXAMPLES["megatron"]["value"] or {}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(VALUE["run"]["artifacts"][0]["text"], "utf-8")
    return path


JOB = "meta-llama/Llama-3.1-8B --num-gpus 8 --tp 2 --seq-length 8192 --cross-entropy te_fused"


def test_what_a_run_took_stands_beside_what_was_expected(run: Run, log: Path) -> None:
    done = run(f"reconcile {JOB} --log {log}")
    assert done.code == 0
    told = " ".join(done.out.split())
    assert "allocated 0 70.9 52.7" in told
    assert re.search(r"micro-batches have 2 samples \+18\.\d (99|100)%", told), told
    assert "ranks seen 1 of 8" in told


def test_what_a_full_memory_had_is_not_off_by_what_it_lacked(run: Run, log: Path) -> None:
    log.write_text(
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 "
        "has a total capacity of 79.11 GiB of which 1.00 GiB is free. Process 1 has 78.00 GiB "
        "memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 6.00 GiB is "
        "reserved by PyTorch but unallocated.",
    )
    told = " ".join(run(f"reconcile {JOB} --micro-batch-size 4 --log {log}").out.split())
    assert re.search(r"device 0 >= 78\.0 [\d.]+ [\d.]+–[\d.]+ agrees", told), told


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ("allocated: 900.00 | max allocated: 950.00", "is this the job that ran?"),
        (
            "allocated: 35400.00 | max allocated: 54000.00 | max reserved: 71000.00",
            "tensors are as",
        ),
    ],
)
def test_what_nothing_explains_is_said_so(run: Run, log: Path, figures: str, words: str) -> None:
    log.write_text(f"[Rank 0] (after 3 iterations) memory (MB) | {figures}")
    assert words in " ".join(run(f"reconcile {JOB} --log {log}").out.split())


def test_json_is_what_http_answers(run: Run, log: Path) -> None:
    found = json.loads(run(f"reconcile {JOB} --log {log} --json").out)
    assert found["comparisons"][0]["source"] == {"name": str(log), "line": 1}


def test_a_job_file_says_what_the_run_was(run: Run, log: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.json"
    job.write_text(json.dumps({name: value for name, value in VALUE.items() if name != "run"}))
    found = json.loads(run(f"reconcile --job {job} --log {log} --json").out)
    assert found["coverage"]["ranks"] == [0]


def test_a_log_that_is_not_there_is_named(run: Run) -> None:
    done = run(f"reconcile {JOB} --log nowhere.log")
    assert done.code == 2
    assert "nowhere.log: No such file or directory" in done.err


def test_logs_are_told_from_launch_files_among_the_words(
    run: Run, log: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "what_it_said"
    plain.write_text(log.read_text("utf-8"), "utf-8")
    script = tmp_path / "train.sh"
    flags = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096"
    flags += " --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 8 --bf16"
    text = f"# CUDA out of memory\ntorchrun --nproc-per-node 8 pretrain_gpt.py {flags}"
    script.write_text(f"{text} --vocab-size 32000", "utf-8")
    for path in (log, plain):
        found = json.loads(run(f"reconcile {script} {path} --json").out)
        assert found["launch"]["format"] == "megatron"
        assert {each["source"]["name"] for each in found["comparisons"]} == {str(path)}
        model, flags = JOB.split(maxsplit=1)
        assert json.loads(run(f"reconcile {model} {path} {flags} --json").out)["comparisons"]

"""Launch files at a terminal and in CI."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

TOML = """[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
seq_len = 8192
[parallelism]
data_parallel_shard_degree = 8
"""
UNKNOWN = TOML + '[nonsense]\nwarp_drive = "on"\n'


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "llama.toml"
    path.write_text(TOML, "utf-8")
    return path


def test_a_launch_file_stands_for_its_job(run: Run, toml: Path) -> None:
    read = json.loads(run(f"job from-launch {toml} --json").out)
    job = toml.with_name("job.json")
    job.write_text(json.dumps(read["job"]), "utf-8")
    launched, alone = (
        json.loads(run(f"estimate {question} --json").out)
        for question in (str(toml), f"--job {job}")
    )
    assert launched["launch"] == {key: read[key] for key in launched["launch"]}
    expected = [
        [each[f"{kind}_bytes"]["expected"] for kind in ("allocated", "reserved", "device")]
        for answer in (launched, alone)
        for each in answer["stages"]
    ]
    assert expected[0] == expected[1]


def test_every_command_spans_the_releases_of_a_launch(run: Run, tmp_path: Path) -> None:
    """max_seq_length is TRL's of long ago, with losses that copied the logits."""
    script = tmp_path / "run.sh"
    script.write_text(
        "torchrun --nproc_per_node=1 sft.py --model_name_or_path meta-llama/Llama-3.1-8B "
        "--max_seq_length 4096 --bf16 True --torch_dtype bfloat16 --gradient_checkpointing True "
        "--per_device_train_batch_size 2 --use_peft True --lora_target_modules all-linear\n",
        "utf-8",
    )
    estimate = json.loads(run(f"estimate {script} --gpu A100-80GB --json").out)
    verdict = json.loads(run(f"fit-check {script} --gpu A100-80GB --format json").out)
    (checked,) = verdict["checks"]
    bounds = estimate["binding"]["device_bytes"]
    assert checked["fit_check"]["binding"]["device_bytes"] == bounds
    (told,) = [each for each in estimate["assumptions"] if each["id"] == "several-releases"]
    assert "the high bound is that of transformers from 4.46 to before 4.49" in told["text"]
    assert "several-releases" in run(f"estimate {script} --verbose").out
    named = json.loads(
        run(
            f"estimate {script} --gpu A100-80GB --json --framework-version transformers==4.48.1"
        ).out
    )
    assert named["binding"]["device_bytes"]["high"] == bounds["high"]
    assert named["binding"]["device_bytes"]["low"] > bounds["low"]


def test_flags_hold_over_a_launch(run: Run, toml: Path) -> None:
    plain = json.loads(run(f"estimate {toml} --json").out)
    longer = json.loads(run(f"estimate {toml} --seq-length 16384 --gpu B200 --json").out)
    assert longer["job"] == {
        **plain["job"],
        "gpu": longer["job"]["gpu"],
        "training": {**plain["job"]["training"], "seq_length": 16384},
    }


def test_a_report_says_how_a_launch_was_read(run: Run, toml: Path) -> None:
    toml.write_text(UNKNOWN, "utf-8")
    out = run(f"estimate {toml} --gpu B200").out
    assert "Launch      torchtitan: " in out
    assert "1 are not modelled" in out
    assert f"Not modelled  {toml.as_posix()}:10: nonsense.warp_drive" in out
    assert "unknown: the launch says what is not modelled" in out


def test_a_gate_points_at_the_line_of_the_launch_file(run: Run, toml: Path) -> None:
    assert run(f"fit-check {toml} --gpu H100-80GB").code == 0
    toml.write_text(UNKNOWN, "utf-8")
    done = run(f"fit-check {toml} --gpu H100-80GB --format github")
    assert done.code == 4
    assert f"::error file={toml.as_posix()},line=10," in done.out
    done = run(f"fit-check {toml} --gpu H100-80GB --accept-unsupported nonsense.warp_drive")
    assert done.code == 0
    toml.write_text(TOML.replace("8192", "-1"), "utf-8")
    done = run(f"fit-check {toml} --gpu H100-80GB --format github")
    assert done.code == 2
    assert f"::error file={toml.as_posix()},line=6," in done.out
    done = run(f"fit-check {toml} --gpu H100-80GB --format sarif")
    (result,) = json.loads(done.out)["runs"][0]["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 6, "startColumn": 1, "endLine": 6, "endColumn": 13}


def test_jobs_and_launches_go_together(run: Run, toml: Path) -> None:
    job = toml.with_name("job.yaml")
    job.write_text("model: {hf_id: meta-llama/Llama-3.1-8B}\n", "utf-8")
    other = toml.with_name("other.toml")
    other.write_text(TOML.replace("8192", "4096"), "utf-8")
    compared = json.loads(run(f"compare {job} {toml} {other} --json").out)
    assert [each["id"] for each in compared["jobs"]] == ["job", "llama.toml", "other.toml"]
    assert [each["launch"] is None for each in compared["jobs"]] == [True, False, False]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("estimate {toml} {toml}.none", "no such file"),
        ("estimate {toml} --env SEQ", "--env: must be NAME=VALUE"),
        ("estimate a b", "b: one model is named, or launch files"),
        ("job from-launch {toml}.none", "No such file"),
    ],
)
def test_a_command_that_cannot_be_answered(run: Run, toml: Path, line: str, words: str) -> None:
    done = run(line.format(toml=toml))
    assert done.code == 2
    assert words in done.err


def test_a_file_that_is_neither_is_told_as_a_job(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("modle: {hf_id: meta-llama/Llama-3.1-8B}\n", "utf-8")
    done = run(f"fit-check {path} --gpu B200")
    assert done.code == 2
    assert "did you mean model?" in done.out


def test_a_job_is_written_as_files_and_arguments(run: Run, toml: Path) -> None:
    out = run(f"job convert {toml} --to torchtitan").out
    assert "# train.toml\n" in out
    assert 'flavor = "8B"' in out
    job = toml.with_name("job.yaml")
    job.write_text(
        "model: {hf_id: meta-llama/Llama-3.1-8B}\ntraining: {global_batch_size: 8}\n", "utf-8"
    )
    assert "--num-layers 32 \\\n" in run(f"job convert {job} --to megatron-args").out
    refused = run(f"job convert {toml} --to megatron-args")
    assert refused.code == 2
    assert refused.err.startswith("trainfit: --framework: ")

"""Flags beside launch files, in every command that takes some."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

SCRIPT = """#!/bin/bash
torchrun --nproc-per-node $GPUS pretrain_gpt.py --num-layers 4 --hidden-size 512 \\
  --num-attention-heads 8 --seq-length 512 --max-position-embeddings 4096 --bf16 \\
  --micro-batch-size 1 --global-batch-size 64 \\
  --tokenizer-type GPTSentencePieceTokenizer --tokenizer-model /data/t.model
"""
SIZES = "--num-layers 32 --hidden-size 4096 --use-distributed-optimizer"
FACTS = "--num-gpus 8 --vocab-size 32000"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT, "utf-8")
    return path


@pytest.mark.parametrize(
    "command",
    [
        "estimate {script} --gpu H100-80GB",
        "compare {script}",
        "job from-launch {script}",
        "job convert {script} --to megatron-args",
    ],
)
def test_the_facts_stand_beside_a_launch(run: Run, script: Path, command: str) -> None:
    refused = run(command.format(script=script))
    assert refused.code == 2
    told = " ".join((refused.out + refused.err).split())
    assert "--num-gpus" in told or "--env GPUS=" in told
    assert "--vocab-size" in told
    assert "overrides" not in told
    done = run(f"{command.format(script=script)} {FACTS} --num-microbatches 2")
    assert done.code == 0, done.out + done.err


def test_a_gate_asks_for_them_where_the_verdict_rests_on_them(run: Run, script: Path) -> None:
    script.write_text(SCRIPT.replace("--num-layers 4 --hidden-size 512", SIZES), "utf-8")
    asked = run(f"fit-check {script} --gpu H100-80GB")
    assert asked.code == 4
    told = " ".join(asked.out.split())
    assert "give --num-gpus" in told
    assert "give --vocab-size" in told
    assert run(f"fit-check {script} --gpu H100-80GB {FACTS}").code == 0


def test_flags_win_over_a_launch(run: Run, script: Path) -> None:
    done = run(f"job from-launch {script} {FACTS} --num-microbatches 2 --seq-length 1024 --json")
    read = json.loads(done.out)
    assert read["job"]["training"]["num_microbatches"] == 2
    assert "global_batch_size" not in read["job"]["training"]
    assert read["job"]["training"]["seq_length"] == 1024
    out = run(f"job from-launch {script} {FACTS} --num-microbatches 2").out
    assert "replaced" in out
    assert "--num-microbatches" in out


def test_any_field_is_set_by_its_pointer(run: Run, script: Path) -> None:
    sets = "--set /training/recompute/granularity=full --set /training/global_batch_size=null"
    job = json.loads(run(f"job from-launch {script} {FACTS} {sets} --json").out)["job"]
    assert job["training"]["recompute"] == {"granularity": "full"}
    assert "global_batch_size" not in job["training"]


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--set seq=1", "--set seq=1: must be /pointer=value"),
        ("--set /training/seq_length", "must be /pointer=value"),
        ("--set /training/sequence=1", "/training/sequence"),
        ("--set /training/seq_length=long", "--seq-length: "),
    ],
)
def test_a_field_that_cannot_be_set(run: Run, script: Path, flag: str, words: str) -> None:
    done = run(f"estimate {script} {FACTS} {flag}")
    assert done.code == 2
    assert words in done.err


def test_a_gate_sets_fields_of_jobs_too(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("model: {hf_id: meta-llama/Llama-3.1-8B}\n", "utf-8")
    checked = run(f"fit-check {path} --gpu B200 --num-gpus 16 --tp 8 --set /training/seq_length=64")
    assert checked.code == 0, checked.out

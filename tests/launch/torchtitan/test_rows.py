"""Runs of the corpus, written as the command lines that they were started with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.accuracy import measured
from tests.launch.launches import DATA, launch_of, read
from trainfit.questions.estimate import answer
from trainfit.specs.framework import Torchtitan
from trainfit.specs.job import Job

CORPUS = Path(__file__).parents[2] / "data" / "corpus" / "measured.jsonl"
FILE = "llama3_8b_2024.toml"
ROWS = [
    row
    for row in map(json.loads, CORPUS.read_text("utf-8").splitlines())
    if row["id"].startswith("titan-") and row["complete"]
]


def command_line(row: dict[str, Any]) -> list[str]:
    """Options over llama3_8b.toml of the time. benchmarks/llama3_h100_202412_torchtitan.md"""
    layout, training = row["parallelism"], row["training"]
    said = {
        "training.batch_size": training["micro_batch"],
        "training.seq_len": training["seq_len"],
        "training.data_parallel_shard_degree": layout["dp"],
        "training.tensor_parallel_degree": layout["tp"],
        "experimental.context_parallel_degree": layout["cp"],
        "activation_checkpoint.mode": training["recompute"]["granularity"],
    }
    flags = ["--training.compile"] if training.get("compile") else []
    if training.get("float8"):
        flags += ["--float8.enable_float8_linear", "--float8.enable_fsdp_float8_all_gather"]
        flags += ["--float8.precompute_float8_dynamic_scale_for_fsdp"]
    if "foreach" not in training["optimizer"]:
        flags += ["--optimizer.fused"]
    words = ["torchtitan.train", "--job.config_file", FILE]
    return [*words, *(f"--{name}={value}" for name, value in said.items()), *flags]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_run_is_estimated_as_its_row_is(row: dict[str, Any]) -> None:
    expected = measured.job_of(row)
    assert isinstance(expected.framework, Torchtitan)
    grows = expected.framework.expandable_segments
    launch = launch_of(
        {FILE: (DATA / "torchtitan" / FILE).read_text("utf-8")},
        command_line(row),
        env={"PYTORCH_CUDA_ALLOC_CONF": f"expandable_segments:{grows}"},
        gpu=expected.gpu,
        accept_unsupported=["*"],
    )
    found = read(launch)
    gathered_in_fp8 = {
        "float8.enable_fsdp_float8_all_gather",
        "float8.precompute_float8_dynamic_scale_for_fsdp",
    }
    assert found.unsupported == (gathered_in_fp8 if row["training"].get("float8") else set())
    assert answer(Job.model_validate(found.job)).stages == answer(expected).stages

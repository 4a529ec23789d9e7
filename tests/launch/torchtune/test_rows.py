"""Runs of the corpus, written as the command lines that they were started with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.accuracy import measured
from tests.launch.launches import DATA, launch_of, read
from trainfit.questions.estimate import answer
from trainfit.specs.job import Job

CORPUS = Path(__file__).parents[2] / "data" / "corpus" / "measured.jsonl"
FILE = "llama3_2_3b_full_single_device.yaml"
ROWS = [
    row
    for row in map(json.loads, CORPUS.read_text("utf-8").splitlines())
    if row["id"].startswith("tune-") and row["complete"]
]


def command_line(row: dict[str, Any]) -> list[str]:
    training = row["training"]
    chunked = bool(training.get("chunked_ce"))
    small = "8bit" in training["optimizer"]
    loss = (
        "torchtune.modules.loss.LinearCrossEntropyLoss" if chunked else "torch.nn.CrossEntropyLoss"
    )
    said = {
        "tokenizer.max_seq_len": training["seq_len"],
        "dataset.packed": True,
        "batch_size": training["micro_batch"],
        "optimizer": "bitsandbytes.optim.AdamW8bit" if small else "torch.optim.AdamW",
        "optimizer.fused": None if small else True,
        "optimizer_in_bwd": bool(training.get("optimizer_in_backward")),
        "enable_activation_checkpointing": bool(training["recompute"]["granularity"]),
        "enable_activation_offloading": bool(training.get("activation_offload")),
        "compile": bool(training.get("compile")),
        "loss": loss,
    }
    words = ["tune", "run", "full_finetune_single_device", "--config", FILE]
    return [*words, *(f"{key}={value}" for key, value in said.items() if value is not None)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_run_is_estimated_as_its_row_is(row: dict[str, Any]) -> None:
    expected = measured.job_of(row)
    files = {FILE: (DATA / "torchtune" / FILE).read_text("utf-8")}
    found = read(launch_of(files, command_line(row), gpu=expected.gpu))
    assert not found.unsupported
    assert answer(Job.model_validate(found.job)).stages == answer(expected).stages

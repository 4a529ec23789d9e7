"""Steps of real frameworks without a device: adapters, 8-bit optimizers, FSDP and DeepSpeed.

A row's job is said here, since a row has the frameworks' words. What is compared is the allocated
peak, workspaces included.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from trainfit.questions.estimate import answer
from trainfit.specs.job import Job

Row = dict[str, Any]

ROWS = Path(__file__).parents[1] / "data" / "simulated_steps.jsonl"
BITSANDBYTES = {"name": "adamw8bit", "embedding_moments_in_fp32": False}
PURE: Row = {"precision": "bf16-pure"}
AUTOCAST: Row = {"precision": "autocast-bf16"}
LORA: Row = {"method": "lora", "r": 16}
QV: Row = {"target_modules": ["q_proj", "v_proj"]}
NF4: Row = {"quantization": "nf4", "double_quantization": True}
NARROW: Row = {"adapter_dtype": "bf16"}
FSDP: Row = {"data_parallel_sharding_strategy": "optim_grads_params"}
DEEPSPEED: Row = {"data_parallel_engine": "deepspeed"}


@cache
def rows() -> dict[str, Row]:
    read = map(json.loads, ROWS.read_text("utf-8").splitlines())
    return {row["id"].removeprefix("sim-"): row for row in read}


def allocated(row: Row, training: Row, parallelism: Row, framework: Row) -> float:
    """Bytes expected of the row's job, and of the logits where its loop holds them through
    backward, which Trainer does not.
    """
    model, given = row["model"], row["training"]
    optimizer = "fused" if "fused" in given["optimizer"] else "foreach"
    job = {
        "model": {"hf_config": model["hf_config"] | {"num_hidden_layers": model["layers"]}},
        "parallelism": {"num_gpus": row["parallelism"]["world_size"], **parallelism},
        "training": {
            "micro_batch_size": given["micro_batch"],
            "num_microbatches": given["num_microbatches"],
            "seq_length": given["seq_len"],
            "optimizer": {"name": "adam", "implementation": optimizer},
            "recompute": {"granularity": given["recompute"]["granularity"]},
            **training,
        },
        "framework": {"name": "transformers", **framework},
        "gpu": "H100-80GB",
    }
    (stage,) = answer(Job.model_validate(job)).stages
    logits: int = 2 * given["micro_batch"] * given["seq_len"] * model["vocab"]
    held = bool(given["switches"].get("logits_held_through_backward"))
    return stage.allocated_bytes.expected + held * logits


@pytest.mark.parametrize(
    ("name", "training", "parallelism", "framework"),
    [
        ("llama8b-lora-r16-all-s2048-noac", {**PURE, "peft": LORA}, {}, {}),
        ("llama8b-lora-r16-all-s2048-ac", {**PURE, "peft": LORA}, {}, {}),
        ("llama8b-lora-r16-all-s2048-bf16adapter", {**PURE, "peft": LORA | NARROW}, {}, {}),
        ("llama8b-lora-r16-all-s2048-dropout", {**PURE, "peft": LORA | {"dropout": 0.05}}, {}, {}),
        ("llama8b-dora-r16-all-s2048-ac", {**PURE, "peft": LORA | {"decomposed": True}}, {}, {}),
        ("llama8b-lora-r64-all-s2048-noac", {**PURE, "peft": LORA | {"r": 64}}, {}, {}),
        ("llama8b-lora-r8-qv-s2048-noac", {**PURE, "peft": LORA | QV | {"r": 8}}, {}, {}),
        ("qwen3-8b-lora-r16-all-s4096-ac", {**PURE, "peft": LORA}, {}, {}),
        ("llama8b-lora-r16-all-s2048-ampbase", {**AUTOCAST, "peft": LORA}, {}, {}),
        ("llama8b-qlora-r16-all-s2048-noprep-noac", {**PURE, "peft": LORA | NF4 | NARROW}, {}, {}),
        ("llama8b-qlora-r16-all-s2048-noac", {**AUTOCAST, "peft": LORA | NF4}, {}, {}),
        ("llama8b-qlora-r16-all-s2048-ac", {**AUTOCAST, "peft": LORA | NF4}, {}, {}),
        (
            "llama8b-qlora-r64-single-s4096-b2-ac",
            {**AUTOCAST, "peft": LORA | {"r": 64, "quantization": "nf4"}},
            {},
            {},
        ),
        ("qwen3-8b-qlora-r16-qv-s2048-ac", {**AUTOCAST, "peft": LORA | NF4 | QV}, {}, {}),
        ("llama1b-bf16-bnb-adamw8bit-ac", {**PURE, "optimizer": BITSANDBYTES}, {}, {}),
        (
            "llama1b-bf16-bnb-pagedadamw8bit-ac",
            {**PURE, "optimizer": BITSANDBYTES | {"paged": True}},
            {},
            {},
        ),
        ("llama1b-trainer-amp-bf16-s2048-b2-noac", AUTOCAST, {}, {}),
        ("llama8b-fsdp2-w8-s4096-ac", {}, FSDP, {}),
        ("llama8b-fsdp2-w64-s4096-ac", {}, FSDP, {}),
        (
            "llama1b-deepspeed-z1-w8-ac",
            {},
            {"data_parallel_sharding_strategy": "optim"},
            DEEPSPEED,
        ),
        (
            "llama1b-deepspeed-z2-w8-ac",
            {},
            {"data_parallel_sharding_strategy": "optim_grads"},
            DEEPSPEED,
        ),
        (
            "llama8b-deepspeed-z2-w8-ac",
            {},
            {"data_parallel_sharding_strategy": "optim_grads"},
            DEEPSPEED,
        ),
        ("llama1b-deepspeed-z3-w8-ac", {}, FSDP, DEEPSPEED),
        ("llama8b-deepspeed-z3-w8-ac", {}, FSDP, DEEPSPEED),
    ],
)
def test_peaks(name: str, training: Row, parallelism: Row, framework: Row) -> None:
    row = rows()[name]
    measured = row["measured"]["max_allocated_bytes"]
    assert allocated(row, training, parallelism, framework) == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize("stage", ["optim_grads", "optim_grads_params"])
def test_what_deepspeed_offloads_is_not_on_the_card(stage: str) -> None:
    """Optimizer states and gradients leave it; below stage 3 a buffer of a parameter comes."""
    row = rows()["llama8b-deepspeed-z2-w8-ac"]
    sharding = {"data_parallel_sharding_strategy": stage}
    kept = allocated(row, {}, sharding, DEEPSPEED)
    offloaded = allocated(row, {}, sharding, DEEPSPEED | {"deepspeed": {"offload_optimizer": True}})
    parameters = row["measured"]["parameters"]
    states = (12 + 2 * (stage == "optim_grads_params")) * parameters / 8
    buffer = 2 * 128256 * 4096 * (stage == "optim_grads")
    assert kept - offloaded == pytest.approx(states - buffer, rel=1e-3)

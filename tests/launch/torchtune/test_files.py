"""Recipes' YAML files of torchtune."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.launch.launches import DATA, launch_of, read
from tests.launch.mutations import check_every_key
from trainfit.specs.job import Job
from trainfit.specs.launch import Launch

FULL = {"/training/recompute/granularity": "full", "/training/precision": "bf16-pure"}
ALONE = FULL | {"/parallelism/data_parallel_sharding_strategy": "no_shard"}
FSDP = FULL | {
    "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
    "/framework/data_parallel_engine": "fsdp2",
    "/framework/sync_each_micro_batch": True,
}
CHUNKS = {"loss._component_"}
"""Losses of chunks that are not compiled."""
ENDS = {"custom_sharded_layers"}

FILES: dict[str, tuple[int, dict[str, Any], set[str]]] = {
    "gemma_2b_full": (2, FSDP | {"/model": {"hf_id": "google/gemma-2b"}}, CHUNKS),
    "llama2_7b_full_low_memory": (
        1,
        ALONE
        | {
            "/model": {"hf_id": "meta-llama/Llama-2-7b-hf"},
            "/training/optimizer/paged": True,
            "/training/optimizer/in_backward": True,
            "/training/offload_activations": True,
        },
        CHUNKS,
    ),
    "llama3_1_70b_lora": (
        8,
        FSDP
        | {
            "/training/peft/r": 16,
            "/training/peft/adapter_dtype": "bf16",
            "/training/peft/target_modules": [
                *("q_proj", "v_proj", "o_proj"),
                *("gate_proj", "up_proj", "down_proj"),
            ],
        },
        CHUNKS,
    ),
    "llama3_1_8b_full": (
        4,
        FSDP | {"/model": {"hf_id": "meta-llama/Llama-3.1-8B"}, "/training/micro_batch_size": 2},
        CHUNKS | ENDS,
    ),
    "llama3_1_8b_lora_single_device": (1, ALONE | {"/training/num_microbatches": 8}, CHUNKS),
    "llama3_1_8b_qlora_single_device": (
        1,
        ALONE | {"/training/peft/quantization": "nf4", "/training/peft/double_quantization": True},
        CHUNKS,
    ),
    "llama3_2_3b_full_single_device": (
        1,
        ALONE | {"/training/optimizer/name": "adamw8bit", "/training/optimizer/paged": True},
        CHUNKS,
    ),
    "llama3_3_70b_full_multinode": (
        16,
        FSDP
        | {
            "/model": {"hf_id": "meta-llama/Llama-3.1-70B"},
            "/training/seq_length": 1024,
            "/training/loss/cross_entropy": "fused",
            "/framework/compile": True,
        },
        ENDS,
    ),
    "llama3_70b_full": (8, FSDP | {"/framework/offload_params": True}, CHUNKS | ENDS),
    "mistral_7b_lora": (2, FSDP | {"/training/peft/r": 64}, CHUNKS),
    "qwen2_5_7b_full_single_device": (
        1,
        ALONE | {"/model": {"hf_id": "Qwen/Qwen2.5-7B"}, "/training/optimizer/name": "adam"},
        CHUNKS,
    ),
}
"""GPUs, fields of the job, and keys that are not modelled."""


def launch_named(name: str) -> Launch:
    path = f"{name}.yaml"
    text = (DATA / "torchtune" / path).read_text("utf-8")
    overrides: dict[str, Any] = {"parallelism": {"num_gpus": FILES[name][0]}}
    if re.search(r"max_seq_len: \d", text) is None:
        overrides["training"] = {"seq_length": 2048}
    return launch_of({path: text}, overrides=overrides)


def leaves(value: dict[str, Any], section: str = "") -> Iterator[str]:
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from leaves(inner, f"{section}{name}.")
        else:
            yield f"{section}{name}"


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read(name: str) -> None:
    _, fields, unsupported = FILES[name]
    found = read(launch_named(name))
    assert {pointer: found.field(pointer) for pointer in fields} == fields
    assert found.left_out == unsupported
    assert Job.model_validate(found.job).framework.name == "transformers"


@pytest.mark.parametrize("name", FILES)
def test_every_key_of_a_file_is_accounted_for_once(name: str) -> None:
    launch = launch_named(name)
    assert Counter(read(launch).keys) == Counter(leaves(yaml.safe_load(launch.files[0].content)))


@pytest.mark.parametrize("name", FILES)
def test_no_key_goes_unnoticed(name: str) -> None:
    assert check_every_key(launch_named(name)) > 5

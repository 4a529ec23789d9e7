"""TOML files of torchtitan and of those who train with it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.launch.launches import DATA, launch_of, read
from tests.launch.mutations import check_every_key
from trainfit.launch.errors import LaunchError
from trainfit.specs.job import Job
from trainfit.specs.launch import Launch

FSDP = {"/parallelism/data_parallel_sharding_strategy": "optim_grads_params"}
FULL = {"/training/recompute/granularity": "full"}
OPERATIONS = {"/training/recompute/granularity": "selective"}
NARROW = {
    "/training/precision/params": "bf16",
    "/training/precision/compute": "bf16",
    "/training/precision/gradients": "bf16",
    "/training/optimizer/in_backward": True,
}
GATHERED_IN_FP8 = {
    "enable_fsdp_float8_all_gather",
    "precompute_float8_dynamic_scale_for_fsdp",
}

FILES: dict[str, tuple[int, dict[str, Any], set[str]]] = {
    "llama3_8b_2024": (
        64,
        FSDP
        | OPERATIONS
        | {
            "/model": {"hf_id": "meta-llama/Llama-3.1-8B"},
            "/training/micro_batch_size": 1,
            "/training/seq_length": 8192,
            "/training/attention/repeats_kv": True,
            "/training/optimizer/implementation": "foreach",
            "/framework/shard_embedding_and_head_apart": False,
            "/framework/collect_outputs": True,
        },
        set(),
    ),
    "llama3_405b_2024": (
        128,
        FSDP
        | FULL
        | {
            "/parallelism/tp": 8,
            "/training/precision/fp8_recipe": "tensorwise",
            "/framework/compile": True,
        },
        {"experimental.enable_async_tensor_parallel"}
        | {f"float8.{name}" for name in GATHERED_IN_FP8},
    ),
    "llama3_70b_v0.1.0": (
        256,
        FSDP
        | FULL
        | {
            "/training/micro_batch_size": 8,
            "/parallelism/tp": 8,
            "/framework/shard_embedding_and_head_apart": False,
            "/framework/collect_outputs": True,
        },
        set(),
    ),
    "llama4_17bx128e_v0.1.0": (
        256,
        FSDP
        | FULL
        | {"/parallelism/pp": 4, "/parallelism/etp": 8, "/training/num_microbatches": 1},
        set(),
    ),
    "deepseek_v3_16b_v0.2.2": (
        64,
        FSDP
        | OPERATIONS
        | {
            "/model": {"hf_id": "deepseek-ai/DeepSeek-V2-Lite"},
            "/parallelism/ep": 8,
            "/parallelism/etp": 1,
            "/framework/compile": False,
            "/training/loss/cross_entropy": "fused",
        },
        set(),
    ),
    "deepseek_v3_671b_v0.2.2": (
        1024,
        FSDP | OPERATIONS | {"/model": {"hf_id": "deepseek-ai/DeepSeek-V3"}},
        set(),
    ),
    "qwen3_32b_v0.2.2": (
        16,
        FSDP | FULL | {"/model": {"hf_id": "Qwen/Qwen3-32B"}, "/training/micro_batch_size": 2},
        set(),
    ),
    "llama3_405b_v0.2.2": (
        128,
        FSDP | FULL | {"/parallelism/tp": 8, "/training/precision/fp8_recipe": "tensorwise"},
        {"parallelism.enable_async_tensor_parallel"}
        | {f"quantize.linear.float8.{name}" for name in GATHERED_IN_FP8},
    ),
    "frontier_llama3_8b": (
        512,
        FSDP
        | FULL
        | {
            "/parallelism/tp": 8,
            "/parallelism/data_parallel_replicate_size": 2,
            "/training/micro_batch_size": 21,
        },
        set(),
    ),
    "lambda_llama3_405b": (
        128,
        FSDP | FULL | NARROW | {"/parallelism/data_parallel_replicate_size": 2},
        {"infra.set_gpu_affinity", "parallelism.prefetch_before_data"},
    ),
    "lambda_llama3_70b_131k": (
        16,
        FSDP | FULL | NARROW | {"/training/seq_length": 131072, "/parallelism/tp": 4},
        {"infra.set_gpu_affinity", "parallelism.enable_async_tensor_parallel"},
    ),
    "lambda_llama3_70b_fp8": (
        8,
        FSDP | FULL | NARROW | {"/training/precision/fp8_recipe": "tensorwise"},
        {"infra.set_gpu_affinity"} | {f"quantize.linear.float8.{name}" for name in GATHERED_IN_FP8},
    ),
    "multi_node_llama3_8b": (
        32,
        FSDP
        | {
            "/training/recompute/granularity": "full",
            "/training/recompute/every_nth_layer": 2,
            "/parallelism/data_parallel_replicate_size": 4,
        },
        {"data.dataset", "data.dataset_path", "data.tokenizer", "tokenizer.tokenizer_path"},
    ),
}
"""GPUs, fields of the job, and keys that are not modelled."""


def launch_named(name: str, num_gpus: int) -> Launch:
    path = f"{name}.toml"
    text = (DATA / "torchtitan" / path).read_text("utf-8")
    return launch_of({path: text}, overrides={"parallelism": {"num_gpus": num_gpus}})


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read(name: str) -> None:
    num_gpus, fields, unsupported = FILES[name]
    found = read(launch_named(name, num_gpus))
    assert {pointer: found.field(pointer) for pointer in fields} == fields
    assert found.unsupported == unsupported
    assert Job.model_validate(found.job).framework.name == "torchtitan"


@pytest.mark.parametrize("name", FILES)
def test_every_key_of_a_file_is_accounted_for_once(name: str) -> None:
    launch = launch_named(name, FILES[name][0])
    account = read(launch).account
    recognised = [each.line for each in account.recognised]
    irrelevant = [each.line for each in account.irrelevant]
    unsupported = [each.line for each in account.unsupported]
    lines = enumerate(launch.files[0].content.split("\n"), 1)
    written = {number for number, line in lines if " = " in line}
    assert Counter(recognised + irrelevant + unsupported) == Counter(written)


@pytest.mark.parametrize("name", FILES)
def test_no_key_goes_unnoticed(name: str) -> None:
    assert check_every_key(launch_named(name, FILES[name][0])) > 5


def test_an_image_model_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"flux_dev_v0\.2\.2\.toml:\d+: .* is an image model"):
        read(launch_named("flux_dev_v0.2.2", 8))


def test_the_note_of_a_preset_says_how_many_gpus_there_are() -> None:
    text = "[model]\nname = 'llama3'\nflavor = '70B'\n[parallelism]\ntensor_parallel_degree = 8\n"
    text += "[training]\nlocal_batch_size = 8\nseq_len = 8192\n[job]\ndescription = 'x'\n"
    note = "# NOTE: this toml config is a preset for 64 A100 GPUs.\n\n"
    found = read(launch_of({"llama3_70b.toml": note + text}))
    assert found.field("/parallelism/num_gpus") == 64
    (told,) = [x for x in found.account.defaulted if x.pointer == "/parallelism/num_gpus"]
    assert "llama3_70b.toml, line 1" in told.whose
    given = {"parallelism": {"num_gpus": 256}}
    assert (
        read(launch_of({"a.toml": note + text}, overrides=given)).field("/parallelism/num_gpus")
        == 256
    )
    with pytest.raises(LaunchError, match="the number of GPUs is not said"):
        read(launch_of({"llama3_70b.toml": text}))

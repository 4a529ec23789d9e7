"""ms-swift over Megatron: a job derived by hand from its source, and what is left out."""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of
from tests.launch.launches import read as read_files

ENV = {"NPROC_PER_NODE": "4", "NNODES": "2"}


def read(words: str, env: dict[str, str] | None = None) -> Read:
    command = f"megatron sft --model Qwen/Qwen2.5-7B --max_length 2048 {words}"
    return read_files(launch_of(argv=command.split(), env=ENV if env is None else env))


def test_a_job_derived_by_hand_from_its_source() -> None:
    found = read(
        "--tensor_model_parallel_size 2 --sequence_parallel true --micro_batch_size 16 "
        "--recompute_granularity full --recompute_method uniform --recompute_num_layers 1 "
        "--cross_entropy_loss_fusion true --use_distributed_optimizer false --dataset a b --lr 1e-5"
    )
    fields = {
        name: value
        for name, value in found.fields().items()
        if name.startswith(("/model", "/parallelism", "/training")) and "/moe/" not in name
    }
    assert fields == {
        "/model": {"hf_id": "Qwen/Qwen2.5-7B"},
        "/parallelism/num_gpus": 8,
        "/parallelism/tp": 2,
        "/parallelism/etp": 1,
        "/parallelism/sequence_parallel": True,
        "/parallelism/data_parallel_sharding_strategy": "no_shard",
        "/training/micro_batch_size": 16,
        "/training/global_batch_size": 16,
        "/training/seq_length": 2048,
        # the model's config.json has torch_dtype bfloat16
        "/training/precision": "bf16",
        "/training/recompute/granularity": "full",
        "/training/recompute/method": "uniform",
        "/training/recompute/num_layers": 1,
        "/training/attention/backend": "flash",
        "/training/attention/dropout": 0.0,
        "/training/hidden_dropout": 0.0,
        "/training/loss/cross_entropy": "native_fused",
    }
    assert not found.left_out


def test_defaults_are_its_own() -> None:
    found = read("")
    assert found.field("/training/recompute/granularity") == "selective"
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim"
    assert found.field("/training/micro_batch_size") == 1
    assert read("--recompute_granularity none").field("/training/recompute") is None
    # Whether the loss is fused depends on the release.
    assert found.bounded == {"cross_entropy_loss_fusion"}


@pytest.mark.parametrize("name", ["tuner_type", "train_type"])
def test_adapters_only_lower_the_peak(name: str) -> None:
    found = read(f"--{name} lora --cross_entropy_loss_fusion true")
    (told,) = found.account.unsupported
    assert (told.key, told.direction) == (name, "lowers")
    assert not read(f"--{name} full --cross_entropy_loss_fusion true").left_out


def test_another_type_than_the_models() -> None:
    found = read("--torch_dtype float16")
    assert found.field("/training/precision") == "fp16"


def test_what_no_list_has_is_unsupported() -> None:
    assert read("--freeze_llm true --some_option 1").unsupported == {"freeze_llm", "some_option"}


def test_experts_are_not_divided_unless_it_is_told_so() -> None:
    layout = "--tensor_model_parallel_size 4 --expert_model_parallel_size 2"
    assert read(layout).field("/parallelism/etp") == 1
    told = read(f"{layout} --expert_tensor_parallel_size 4")
    assert told.field("/parallelism/etp") == 4


def test_a_tower_is_frozen_unless_it_is_told_otherwise() -> None:
    sees = "--model Qwen/Qwen2.5-VL-7B-Instruct --cross_entropy_loss_fusion true"
    for words in (sees, f"{sees} --freeze_vit true", f"{sees} --freeze_vit false"):
        (told,) = read(words).account.unsupported
        assert (told.key, told.direction) == ("model", "lowers")
    assert not read(f"{sees} --freeze_vit false --freeze_aligner false").left_out
    assert not read("--freeze_vit true --cross_entropy_loss_fusion true").left_out


@pytest.mark.parametrize("words", ["--rlhf_type dpo", ""])
def test_what_rlhf_does_besides_is_told(words: str) -> None:
    command = f"megatron rlhf {words} --model Qwen/Qwen2.5-7B --max_length 2048 --lr 1e-5"
    found = read_files(launch_of(argv=command.split(), env=ENV))
    assert found.unsupported == {"rlhf_type"}
    assert found.field("/training/seq_length") == 2048

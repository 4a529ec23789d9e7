"""ms-swift over Megatron: a job derived by hand from its source, and what is left out."""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of
from tests.launch.launches import read as read_files
from trainfit.questions.python import fit_check

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
        # mcore-bridge's parser of config.json sets no depths
        "/training/mtp/num_layers": 0,
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


FUSED = "--cross_entropy_loss_fusion true"


@pytest.mark.parametrize("name", ["tuner_type", "train_type"])
def test_adapters_are_those_of_its_arguments(name: str) -> None:
    found = read(f"--{name} lora {FUSED}")
    defaults = {"method": "lora", "r": 8, "dropout": 0.05, "target_modules": "all-linear"}
    assert {key: found.field(f"/training/peft/{key}") for key in defaults} == defaults
    assert not found.left_out
    assert not found.bounded
    told = read(
        f"--{name} lora --lora_rank 64 --lora_dropout 0 --target_modules linear_qkv linear_proj "
        f"{FUSED}"
    )
    assert told.field("/training/peft/r") == 64
    assert told.field("/training/peft/dropout") == 0
    assert told.field("/training/peft/target_modules") == ["linear_qkv", "linear_proj"]
    full = read(f"--{name} full {FUSED}")
    assert full.field("/training/peft") is None
    assert not full.left_out


def test_ranks_share_out_less_of_adapters_than_bridge() -> None:
    """A of qkv and of fc1, B of the projection and of fc2 are whole on both ranks of 28 layers."""
    (told,) = read(f"--tuner_type lora --tensor_model_parallel_size 2 {FUSED}").account.bounded
    assert (told.direction, told.bytes) == ("raises", 18 * 28 * 4 * 8 * 3584 // 2)


def test_every_expert_has_adapters_of_its_own() -> None:
    """64 experts on a rank where one is priced, of widths 2048 and 768 over 48 layers."""
    (told,) = read(
        f"--model Qwen/Qwen3-30B-A3B --tuner_type lora --expert_model_parallel_size 2 {FUSED}"
    ).account.bounded
    assert told.bytes == 18 * 48 * 63 * 8 * (2 * 2048 + 3 * 768)


def test_what_was_measured_lies_within() -> None:
    """62 GiB on each of two cards, by examples/megatron/lora/moe.sh."""
    words = (
        "megatron sft --model Qwen/Qwen3-30B-A3B --max_length 2048 --tuner_type lora "
        "--expert_model_parallel_size 2 --moe_permute_fusion true --moe_shared_expert_overlap true "
        "--micro_batch_size 8 --global_batch_size 16 --recompute_granularity full "
        f"--recompute_method uniform --recompute_num_layers 1 --sequence_parallel true {FUSED}"
    )
    env = {"NPROC_PER_NODE": "2", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    launch = {"argv": words.split(), "env": env, "gpu": "H100-80GB"}
    answer = fit_check({"launch": launch}, suggest=False)
    assert answer.verdict == "fits"
    assert answer.estimate is not None
    device = answer.estimate.binding.device_bytes
    assert device.low < 62 * 2**30 < device.high
    assert abs(device.expected / 2**30 / 62 - 1) < 0.04


def test_adapters_of_other_modules_are_told() -> None:
    words = "--tuner_type lora --target_modules all-linear all-router"
    assert "target_modules" in read(words).unsupported


def test_a_tower_is_frozen_beside_adapters() -> None:
    sees = f"--model Qwen/Qwen2.5-VL-7B-Instruct {FUSED}"
    assert not read(f"{sees} --tuner_type lora").left_out
    assert read(f"{sees} --tuner_type lora --freeze_vit false").unsupported == {"freeze_vit"}
    (told,) = read(f"{sees} --tuner_type lora_llm").account.unsupported
    assert (told.key, told.direction) == ("tuner_type", "lowers")


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


@pytest.mark.parametrize(
    ("words", "frozen", "recomputes"),
    [
        ("", ["vision_tower", "multi_modal_projector"], None),
        ("--freeze_vit true --freeze_aligner false", ["vision_tower"], None),
        ("--freeze_vit false", ["multi_modal_projector"], True),
        ("--freeze_vit false --freeze_aligner false", None, True),
        ("--freeze_llm true --freeze_aligner false", ["vision_tower", "language_model"], None),
        ("--freeze_vit false --vit_gradient_checkpointing false", ["multi_modal_projector"], False),
    ],
)
def test_a_tower_is_frozen_unless_it_is_told_otherwise(
    words: str, frozen: list[str] | None, recomputes: bool | None
) -> None:
    found = read(f"--model Qwen/Qwen2.5-VL-7B-Instruct --cross_entropy_loss_fusion true {words}")
    assert not found.left_out
    assert found.field("/training/frozen") == frozen
    assert found.field("/framework/recompute_tower") == recomputes
    assert found.field("/framework/tower_impl") == "transformers"


def test_learning_rates_of_parts_change_nothing() -> None:
    """Of examples/megatron/multimodal/lora_llm_vit_full/sft.sh."""
    sees = f"--model Qwen/Qwen2.5-VL-7B-Instruct {FUSED} --freeze_vit false --freeze_aligner false"
    rates = "--lr 1e-4 --vit_lr 1e-5 --aligner_lr 1e-5 --add_non_thinking_prefix true"
    assert not read(f"{sees} {rates}").left_out


def test_depths_that_a_model_declares_are_built_where_they_are_asked_for() -> None:
    """mcore-bridge: of Qwen3.5's config, which declares one, none is set."""
    sees = f"--model Qwen/Qwen3.5-2B {FUSED} --tuner_type lora"
    assert read(sees).field("/training/mtp/num_layers") == 0
    assert read(f"{sees} --mtp_num_layers 1").field("/training/mtp/num_layers") == 1


def test_a_model_without_a_tower_has_none_to_freeze() -> None:
    found = read("--freeze_vit true --cross_entropy_loss_fusion true")
    assert not found.left_out
    assert found.field("/training/frozen") is None
    assert found.field("/framework/tower_impl") is None


@pytest.mark.parametrize(
    ("words", "measured_gib"),
    [
        ("--tensor_model_parallel_size 2 --freeze_vit true --freeze_aligner true", 72),
        ("--tuner_type lora --target_modules all-linear --freeze_llm false", 23),
    ],
)
def test_what_was_measured_of_models_that_see_lies_within(words: str, measured_gib: int) -> None:
    """On each of two cards, by examples/megatron/multimodal/dense (full.sh, lora.sh)."""
    command = (
        "megatron sft --model Qwen/Qwen2.5-VL-7B-Instruct "
        "--sequence_parallel true --packing true --micro_batch_size 1 --global_batch_size 4 "
        "--recompute_granularity full --recompute_method uniform --recompute_num_layers 1 "
        f"--max_length 2048 {FUSED} {words}"
    )
    env = {"NPROC_PER_NODE": "2", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    launch = {"argv": command.split(), "env": env, "gpu": "H100-80GB"}
    found = fit_check({"launch": launch}, suggest=False)
    assert found.verdict == "fits"
    assert found.estimate is not None
    device = found.estimate.binding.device_bytes
    assert device.low < measured_gib * 2**30 < device.high
    assert abs(device.expected / 2**30 / measured_gib - 1) < 0.03


@pytest.mark.parametrize("words", ["--rlhf_type gkd --teacher_model m", ""])
def test_another_loop_is_not_modelled(words: str) -> None:
    command = f"megatron rlhf {words} --model Qwen/Qwen2.5-7B --max_length 2048 --lr 1e-5"
    found = read_files(launch_of(argv=command.split(), env=ENV))
    assert "rlhf_type" in found.unsupported
    assert found.field("/training/seq_length") == 2048


@pytest.mark.parametrize(
    ("words", "measured_gib"),
    [
        ("--rlhf_type dpo --model Qwen/Qwen3-4B-Instruct-2507 --rpo_alpha 0.1", 28),
        ("--rlhf_type kto --model Qwen/Qwen2.5-7B-Instruct", 43),
    ],
)
def test_what_was_measured_of_preferences_lies_within(words: str, measured_gib: int) -> None:
    """On each of four cards, by examples/megatron/rlhf (dpo/packing.sh, kto/dense.sh), whose packs
    are as long as is asked for; of DPO a pair may be longer.
    """
    command = (
        f"megatron rlhf {words} --tensor_model_parallel_size 4 --packing true "
        "--micro_batch_size 1 --global_batch_size 4 --recompute_granularity full "
        f"--recompute_method uniform --recompute_num_layers 1 {FUSED} --max_length 8192 "
        "--sequence_parallel true --attention_backend flash --beta 0.1"
    )
    env = {"NPROC_PER_NODE": "4", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    launch = {"argv": command.split(), "env": env, "gpu": "H100-80GB"}
    found = fit_check({"launch": launch}, suggest=False)
    assert found.verdict == "fits"
    assert found.estimate is not None
    device = found.estimate.binding.device_bytes
    assert device.low < measured_gib * 2**30 < device.high

"""LLaVA's scripts: a language model, and a tower and a projector that they set before it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from tests.launch.mutations import check_every_key
from trainfit.architectures.registry import parse_config
from trainfit.estimator.parameters import count_parameters
from trainfit.launch.transformers.llava import STATES

TOWER = "--vision_tower openai/clip-vit-large-patch14-336 --mm_vision_select_layer -2 "
COMMAND = (
    "deepspeed --num_gpus 8 llava/train/train_mem.py --deepspeed zero3.json "
    "--model_name_or_path {model} --version v1 --data_path d.json --image_folder images "
    f"{TOWER}--mm_projector_type mlp2x_gelu --mm_use_im_start_end False --mm_use_im_patch_token "
    "False --image_aspect_ratio pad --group_by_modality_length True --bf16 True --output_dir out "
    "--per_device_train_batch_size 4 --gradient_accumulation_steps 1 --learning_rate 2e-5 "
    "--tf32 True --model_max_length 2048 --gradient_checkpointing True --lazy_preprocess True"
)
CONFIG = '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}'
VICUNA = "lmsys/vicuna-7b-v1.5"


def launched(more: str = "", model: str = VICUNA, without: str = "", **rest: Any) -> Any:
    words = f"{COMMAND.format(model=model)} {more}".replace(without, "").split()
    return launch_of({"zero3.json": CONFIG}, words, **rest)


def trained(more: str = "", **rest: Any) -> Read:
    return read(launched(more, **rest))


def test_the_whole_is_the_model_that_transformers_has() -> None:
    found = trained()
    config = found.field("/model/hf_config")
    assert config["text_config"]["model_type"] == "llama"
    assert config["vision_feature_layer"] == -2
    # llava-hf/llava-1.5-7b-hf has 7,063,427,072, with 64 rows more of two matrices of 4,096 columns
    assert count_parameters(parse_config(config)).total == 7_063_427_072 - 2 * 64 * 4096
    assert found.field("/training/frozen") == ["vision_tower"]
    assert found.field("/training/attention/backend") == "flash"
    assert found.field("/training/precision") == "bf16"
    assert not found.unsupported
    assert not found.bounded


@pytest.mark.parametrize(
    ("name", "shared", "offload"),
    [("zero2", "optim_grads", None), ("zero3_offload", "optim_grads_params", True)],
)
def test_a_config_of_its_own_need_not_be_sent(name: str, shared: str, offload: bool | None) -> None:
    """Forks have larger buckets in theirs, which is bounded."""
    found = read(
        launch_of(argv=COMMAND.replace("zero3", f"./scripts/{name}").format(model=VICUNA).split())
    )
    assert found.field("/parallelism/data_parallel_sharding_strategy") == shared
    assert found.field("/framework/deepspeed/offload_optimizer") is offload
    assert found.bounded == {"deepspeed"}
    assert not found.unsupported


def test_a_first_stage_trains_the_projector_alone() -> None:
    found = trained("--tune_mm_mlp_adapter True")
    assert found.field("/training/frozen") == ["vision_tower", "language_model"]
    assert not found.unsupported


def test_a_copy_of_a_tower_is_known_by_its_last_name() -> None:
    local = "--vision_tower ./checkpoints/clip-vit-large-patch14-336/"
    found = trained(local)
    assert found.field("/model/hf_config/vision_config")["image_size"] == 336
    smaller = trained("--vision_tower openai/clip-vit-large-patch14")
    assert smaller.field("/model/hf_config/vision_config")["image_size"] == 224


def test_beside_adapters_the_projector_is_trained_as_a_whole() -> None:
    found = trained("--lora_enable True --lora_r 128 --lora_alpha 256")
    assert found.field("/training/peft/r") == 128
    assert found.field("/training/peft/target_modules") == "all-linear"
    (bound,) = [each for each in found.account.bounded if each.key == "lora_enable"]
    projector = 1025 * 4096 + 4097 * 4096
    assert (bound.direction, bound.bytes) == (
        "raises",
        STATES * projector + 4 * 4 * 2048 * (1024 + 4 * 4096),
    )


def test_one_linear_only_lowers() -> None:
    found = trained("--mm_projector_type linear")
    assert [each.direction for each in found.account.unsupported] == ["lowers"]
    assert found.unsupported == {"mm_projector_type"}
    # which is its default, too
    assert trained(without="--mm_projector_type mlp2x_gelu").unsupported == {"vision_tower"}


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("--vision_tower google/siglip-so400m-patch14-384", "vision_tower"),
        ("--mm_projector_type resampler", "mm_projector_type"),
        ("--image_aspect_ratio anyres", "image_aspect_ratio"),
        ("--mm_patch_merge_type spatial_unpad", "mm_patch_merge_type"),
        ("--freeze_backbone True", "freeze_backbone"),
        ("--bits 4", "bits"),
        ("--mm_tunable_parts mm_mlp_adapter", "mm_tunable_parts"),
    ],
)
def test_what_is_not_known_of_a_tower_is_unsupported(more: str, key: str) -> None:
    assert key in trained(more).unsupported


def test_a_model_in_overrides_has_to_have_the_tower_itself() -> None:
    alone = trained(overrides={"model": {"hf_id": "Qwen/Qwen3-8B"}})
    assert alone.unsupported == {"vision_tower"}
    whole = trained(overrides={"model": {"hf_id": "llava-hf/llava-1.5-7b-hf"}})
    assert not whole.unsupported


def test_a_model_that_nobody_knows_has_no_tower_before_it() -> None:
    assert trained(model="some/body").unsupported == {"vision_tower"}


def test_a_path_is_known_by_its_last_name() -> None:
    found = trained(model="./checkpoints/vicuna-7b-v1.5")
    assert found.field("/model/hf_config/text_config")["model_type"] == "llama"


@pytest.mark.parametrize("more", ["", "--lora_enable True", "--tune_mm_mlp_adapter True"])
def test_no_key_goes_unnoticed(more: str) -> None:
    check_every_key(launched(more))


@pytest.mark.parametrize("tower", [{}, {"hidden_size": "wide"}, None, 5])
def test_a_tower_in_overrides_may_say_nothing_of_its_width(tower: Any) -> None:
    config = {"model_type": "llava", "vision_config": tower, "text_config": {"hidden_size": 4096}}
    found = trained("--lora_enable True", overrides={"model": {"hf_config": config}})
    assert found.unsupported == {"lora_enable" if isinstance(tower, dict) else "vision_tower"}

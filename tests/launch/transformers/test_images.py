"""Launches of models that see: what is frozen of them, and tokens that stand for images."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read, launch_of
from tests.launch.launches import read as read_files
from trainfit.specs.job import Job

TOKENS = "/training/image_tokens"
ZERO3 = '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}}'


def read(command: str, **overrides: Any) -> Read:
    return read_files(launch_of({"run.sh": command, "zero3.json": ZERO3}, overrides=overrides))


GRPO = (
    "NPROC_PER_NODE=8 {} swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-VL-7B-Instruct "
    "--tuner_type lora --use_vllm true --vllm_mode server --max_length 4096 "
    "--max_completion_length 1024 --per_device_train_batch_size 1 "
)


LIMIT = """--vllm_limit_mm_per_prompt '{"image":2}'"""


@pytest.mark.parametrize(
    ("variables", "tokens"),
    [
        # 1,003,520 pixels are 1,280 squares of 28 x 28
        ("MAX_PIXELS=1003520", 2 * 1280),
        ("IMAGE_MAX_TOKEN_NUM=256", 2 * 256),
        ("MAX_PIXELS=10035200", 4096 + 1024),
    ],
)
def test_images_are_at_most_so_large_and_so_many(variables: str, tokens: int) -> None:
    found = read(GRPO.format(variables) + LIMIT)
    assert found.field(TOKENS) == tokens
    (told,) = [each for each in found.account.bounded if "smaller" in each.why]
    assert told.direction == "lowers"
    assert [(each.pointer, each.value) for each in told.within] == [(TOKENS, 0)]
    Job.model_validate(found.job)


@pytest.mark.parametrize("more", ["", LIMIT.replace("}", ',"video":1}')])
def test_nothing_is_set_where_it_is_not_said_how_many_there_are(more: str) -> None:
    found = read(GRPO.format("MAX_PIXELS=1003520") + more)
    assert found.field(TOKENS) is None
    assert not found.unsupported


QWENS = (
    "torchrun --nproc_per_node 8 qwenvl/train/train_qwen.py --deepspeed zero3.json "
    "--model_name_or_path Qwen/Qwen2.5-VL-7B-Instruct --dataset_use a,b --data_flatten True "
    "--tune_mm_vision False --tune_mm_mlp True --tune_mm_llm True --bf16 "
    "--per_device_train_batch_size 4 --max_pixels 50176 --min_pixels 784 --model_max_length 8192 "
    "--gradient_checkpointing True"
)


def test_qwens_own_script() -> None:
    found = read(QWENS)
    assert found.field("/training/frozen") == ["vision_tower"]
    assert found.field("/training/precision") == "bf16"
    assert found.field("/training/attention/backend") == "flash"
    assert found.field("/training/seq_length") == 8192
    assert not found.left_out
    whole = read(QWENS.replace("--tune_mm_vision False", "--tune_mm_vision True"))
    assert whole.field("/training/frozen") is None
    alone = read(QWENS.replace("--tune_mm_mlp True --tune_mm_llm True", ""))
    assert alone.unsupported == {"tune_mm_vision"}, "nothing would be trained"
    assert "lora_enable" in read(f"{QWENS} --lora_enable True").unsupported


ANOTHERS = (
    "deepspeed src/train/train_sft.py --use_liger True --deepspeed zero3.json --bf16 True "
    "--model_id Qwen/Qwen2.5-VL-3B-Instruct --freeze_vision_tower False --freeze_llm False "
    "--freeze_merger True --disable_flash_attn2 False --per_device_train_batch_size 4 "
    "--image_min_pixels 401408 --image_max_pixels 1003520 --gradient_checkpointing True"
)


def test_a_script_for_qwens_models() -> None:
    found = read(ANOTHERS, training={"seq_length": 4096}, parallelism={"num_gpus": 8})
    assert found.field("/training/frozen") == ["multi_modal_projector"]
    assert found.field("/framework/liger_kernel") is True
    assert found.field("/training/attention/backend") == "flash"
    assert not found.left_out

"""Keys of forks and of tools beside a trainer that change no memory."""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of, read

GPUS = {"parallelism": {"num_gpus": 8}}
MEGATRON = (
    "pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --micro-batch-size 2 --vocab-size 50257 --bf16 "
)
FACTORY = """
model_name_or_path: Qwen/Qwen2-VL-7B-Instruct
stage: sft
finetuning_type: lora
cutoff_len: 2048
per_device_train_batch_size: 1
bf16: true
"""
AXOLOTL = """
base_model: Qwen/Qwen3-8B
sequence_len: 2048
micro_batch_size: 1
gradient_accumulation_steps: 1
optimizer: adamw_torch
adapter: lora
lora_r: 8
lora_target_linear: true
bf16: true
"""
TITAN = """
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
seq_len = 8192
shuffle_seed = 31
"""
MEDICAL = (
    "torchrun --nproc_per_node 2 supervised_finetuning.py --model_name_or_path Qwen/Qwen2.5-7B "
    "--train_file_dir d --lora_rank 8 --per_device_train_batch_size 2 --model_max_length 1024 "
    "--bf16 --torch_dtype bfloat16 --output_dir out "
)


def megatron(words: str) -> Read:
    return read(launch_of(argv=f"{MEGATRON} {words}".split(), overrides=GPUS))


@pytest.mark.parametrize(
    "words",
    [
        "--repeated-dataloader",
        "--loss-on-targets-only",
        "--override-lr-scheduler",
        "--structured-logs --structured-logs-dir logs",
        "--wandb-entity-name a --wandb-project-name b",
    ],
)
def test_options_of_forks_of_megatron(words: str) -> None:
    found = megatron(words)
    assert {each for each in words.split() if each.startswith("--")} <= found.irrelevant
    assert not found.left_out - megatron("").left_out


def test_sizes_of_images_before_they_were_pixels() -> None:
    text = f"{FACTORY}image_resolution: 262144\nvideo_resolution: 16384\n"
    found = read(launch_of({"a.yaml": text}, overrides=GPUS))
    assert {"image_resolution", "video_resolution"} <= found.irrelevant
    assert not found.unsupported


def test_what_axolotl_evaluates_once_it_has_trained() -> None:
    text = f"{AXOLOTL}lm_eval_tasks: [arc]\nlm_eval_batch_size: 8\nlm_eval_model: a/b\n"
    found = read(launch_of({"a.yaml": text}, overrides=GPUS))
    assert {"lm_eval_tasks", "lm_eval_batch_size", "lm_eval_model"} <= found.irrelevant


def test_the_order_of_samples_of_torchtitan() -> None:
    found = read(launch_of({"a.toml": TITAN}, overrides=GPUS))
    assert "training.shuffle_seed" in found.irrelevant


def test_what_medicalgpt_says_of_tools_and_kernels() -> None:
    found = read(launch_of(argv=f"{MEDICAL} --tool_format default --flash_attn True".split()))
    assert found.field("/training/attention/backend") == "flash"
    assert not found.unsupported

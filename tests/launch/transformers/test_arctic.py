"""ArcticTraining, by jobs worked out by hand from its configs and its trainer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from tests.launch.mutations import check_every_key
from trainfit.launch.errors import LaunchError

# Shortened from projects/sequence-parallelism/run-h100-sp1-qwen3-32b.yml.
RECIPE = """
type: sft
micro_batch_size: 2
gradient_accumulation_steps: 4
exit_iteration: 30
DEEPSPEED
optimizer: {learning_rate: 0.00001}
model:
  name_or_path: meta-llama/Llama-3.1-8B-Instruct
  attn_implementation: flash_attention_2
  MODEL
data:
  sources: [{type: huggingface_instruct, name_or_path: HuggingFaceH4/ultrachat_200k}]
  cache_dir: data-cache
  max_length: 4096
logger: {level: WARNING}
checkpoint: [{type: huggingface, save_every_n_steps: 300, output_dir: /tmp/ft-model}]
"""
STAGE_3 = "deepspeed: {zero_optimization: {stage: 3}}"
GPUS: Any = {"parallelism": {"num_gpus": 8}}


def recipe(more: str = STAGE_3, model: str = "dtype: bf16") -> str:
    return RECIPE.replace("DEEPSPEED", more).replace("MODEL", model)


def trained(more: str = STAGE_3, model: str = "dtype: bf16") -> Read:
    return read(launch_of({"run.yml": recipe(more, model)}, overrides=GPUS))


def test_a_file_alone_is_what_its_command_names() -> None:
    """config/trainer.py (build_deepspeed_config), model/hf_factory.py, optimizer/."""
    found = trained()
    fields = {name: value for name, value in found.fields().items() if name != "/model"}
    assert fields == {
        "/framework/name": "transformers",
        "/framework/data_parallel_engine": "deepspeed",
        "/parallelism/num_gpus": 8,
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        "/training/micro_batch_size": 2,
        "/training/num_microbatches": 4,
        "/training/seq_length": 4096,
        "/training/precision": "bf16",
        "/training/optimizer/name": "adam",
        "/training/optimizer/implementation": "fused",
        # layers are checkpointed unless that is switched off
        "/training/recompute/granularity": "full",
        "/training/attention/backend": "flash",
    }
    assert not found.left_out
    words = ["arctic_training", "run.yml", "--num_gpus", "4"]
    named = read(launch_of({"run.yml": recipe(), "other.yml": "a: 1"}, words))
    assert named.job == found.job | {"parallelism": named.job["parallelism"]}
    assert named.field("/parallelism/num_gpus") == 4


def test_what_deepspeed_is_not_told_is_its_own() -> None:
    """Stage 2 and buckets of h * h where no section says otherwise; DeepSpeed's stage 0 within one
    that names none.
    """
    found = trained("deepspeed: {steps_per_print: 5}")
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim_grads"
    assert found.field("/framework/deepspeed/reduce_bucket_size") == "auto"
    given = trained("deepspeed: {zero_optimization: {overlap_comm: false}}")
    assert given.field("/parallelism/data_parallel_sharding_strategy") == "no_shard"


def test_adapters_kernels_and_types() -> None:
    found = trained(
        model="type: liger\n  peft_config: {peft_type: LORA, r: 16, target_modules: [q_proj]}"
    )
    assert found.field("/training/peft/r") == 16
    assert found.field("/training/peft/target_modules") == ["q_proj"]
    assert found.field("/framework/liger_kernel") is True
    kept = trained(model="dtype: bf16\n  disable_activation_checkpoint: true")
    assert kept.field("/training/recompute/granularity") is None


@pytest.mark.parametrize(
    ("more", "key", "direction"),
    [
        ("tiled_mlp_compute: true", "tiled_mlp_compute", "lowers"),
        ("activation_checkpoint_cpu_offload: true", "activation_checkpoint_cpu_offload", "lowers"),
        ("sequence_parallel_size: 8", "sequence_parallel_size", "either"),
        ("arctic_moe: auto", "arctic_moe", "either"),
        ("own_key: 1", "own_key", "either"),
    ],
)
def test_what_is_not_modelled(more: str, key: str, direction: str) -> None:
    found = trained(f"{STAGE_3}\n{more}")
    (told,) = found.account.unsupported
    assert (told.key, told.direction) == (key, direction)
    assert not trained(f"{STAGE_3}\ntiled_mlp_compute: false").left_out


def test_no_key_that_decides_goes_unnoticed() -> None:
    assert check_every_key(launch_of({"run.yml": recipe()}, overrides=GPUS)) > 5


def test_its_number_of_gpus_is_that_of_a_launcher() -> None:
    with pytest.raises(LaunchError, match="on how many GPUs"):
        read(launch_of({"run.yml": recipe()}))

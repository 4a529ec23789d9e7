"""Recipes of Megatron-Bridge by their names, held to jobs that their functions make, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import launch_of, read
from tests.launch.megatron.test_configs import words_of
from tests.launch.mutations import check_every_key
from trainfit.launch.errors import LaunchError
from trainfit.launch.megatron.bridge_recipes import recipes
from trainfit.questions.python import QuestionError, fit_check
from trainfit.specs.job import Job

GPUS = {"WORLD_SIZE": "32"}
PARALLELISM, TRAINING = "/parallelism", "/training"

BY_HAND: dict[str, dict[str, Any]] = {
    # recipes/gpt_oss/h100/gpt_oss.py
    "gpt_oss_20b_pretrain_config": {
        "/model/hf_id": "openai/gpt-oss-20b",
        f"{PARALLELISM}/tp": 2,
        f"{PARALLELISM}/pp": 4,
        f"{PARALLELISM}/ep": 4,
        f"{PARALLELISM}/etp": 1,
        f"{PARALLELISM}/sequence_parallel": True,
        f"{TRAINING}/seq_length": 4096,
        f"{TRAINING}/micro_batch_size": 1,
        f"{TRAINING}/global_batch_size": 512,
        f"{TRAINING}/precision": "bf16",
    },
    # recipes/llama/h100/llama3.py
    "llama3_8b_pretrain_config": {
        "/model/hf_id": "meta-llama/Meta-Llama-3-8B",
        f"{PARALLELISM}/cp": 2,
        f"{PARALLELISM}/data_parallel_sharding_strategy": "optim",
        f"{TRAINING}/seq_length": 8192,
        f"{TRAINING}/global_batch_size": 512,
    },
    "llama3_70b_pretrain_32gpu_h100_bf16_16k_config": {
        f"{TRAINING}/seq_length": 16384,
        f"{TRAINING}/global_batch_size": 512,
        "/framework/tp_comm_overlap": True,
    },
    # recipes/kimi/kimi_k2.py: DistributedDataParallel does not cut buffers for Muon.
    "kimi_k2_pretrain_config": {
        f"{PARALLELISM}/data_parallel_sharding_strategy": "optim",
        f"{TRAINING}/optimizer/name": "muon",
        "/framework/use_layer_wise_param_layout": False,
        "/framework/overlap_param_gather": False,
    },
    # perf_recipes/llama/gb200/llama31.py, whose functions set the environment as well
    "llama31_405b_pretrain_256gpu_gb200_bf16_config": {
        "/model/hf_id": "meta-llama/Meta-Llama-3.1-405B",
        f"{PARALLELISM}/tp": 4,
        f"{PARALLELISM}/pp": 16,
        f"{PARALLELISM}/vpp": 8,
        f"{TRAINING}/seq_length": 8192,
        f"{TRAINING}/global_batch_size": 1536,
        f"{TRAINING}/precision": {"gradients": "bf16", "main_params": "fp32"},
        f"{TRAINING}/loss/cross_entropy": "te_fused",
        "/framework/expandable_segments": True,
    },
    # perf_recipes/gpt_oss/gb200/gpt_oss.py; the dispatcher is gpt_oss_bridge.py's
    "gpt_oss_120b_pretrain_64gpu_gb200_bf16_config": {
        f"{PARALLELISM}/ep": 64,
        f"{TRAINING}/micro_batch_size": 4,
        f"{TRAINING}/moe/token_dispatcher_type": "alltoall",
        "/framework/overlap_moe_expert_parallel_comm": True,
    },
    # Of both packages that have this name, perf_recipes counts (scripts/training/recipe_runner.py).
    "qwen3_235b_a22b_pretrain_256gpu_h100_bf16_config": {
        f"{PARALLELISM}/tp": 2,
        f"{PARALLELISM}/pp": 8,
        f"{PARALLELISM}/vpp": 4,
        f"{PARALLELISM}/ep": 32,
        f"{TRAINING}/global_batch_size": 8192,
        f"{TRAINING}/moe/token_dispatcher_type": "alltoall",
        "/framework/delay_wgrad_compute": True,
    },
    # recipes/qwen/h100/qwen3_moe.py calls apply_flex_dispatcher_backend
    "qwen3_30b_a3b_pretrain_8gpu_h100_bf16_config": {
        f"{PARALLELISM}/tp": 4,
        f"{PARALLELISM}/pp": 2,
        f"{PARALLELISM}/ep": 4,
        f"{TRAINING}/moe/token_dispatcher_type": "flex",
        f"{TRAINING}/moe/flex_dispatcher_backend": "deepep",
        f"{TRAINING}/recompute/granularity": "full",
    },
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_recipe_is_the_job_that_its_function_makes(name: str) -> None:
    found = read(launch_of(None, ("run_recipe.py", "--recipe", name), env=GPUS))
    assert {pointer: found.field(pointer) for pointer in BY_HAND[name]} == BY_HAND[name]
    assert not found.left_out
    Job.model_validate(found.job)


@pytest.mark.parametrize("name", BY_HAND)
def test_a_model_of_the_hub_drops_nothing_unless_it_is_told_to(name: str) -> None:
    """gpt_oss_bridge.py, llama_bridge.py: hidden_dropout; the config.json: attention_dropout."""
    words = ("run_recipe.py", "--recipe", name)
    for more, dropout in (((), 0.0), (("model.hidden_dropout=0.1",), 0.1)):
        found = read(launch_of(None, (*words, *more), env=GPUS))
        assert found.field(f"{TRAINING}/hidden_dropout") == dropout
        assert found.field(f"{TRAINING}/attention/dropout") == 0.0


def test_buffers_of_gradients_are_as_ddp_reduces_them() -> None:
    """optimizer_config.py: main_grads_dtype is compared with other fields, and decides nothing."""
    words = ("run_recipe.py", "--recipe", "llama3_8b_pretrain_config")
    aware = "optimizer.use_precision_aware_optimizer=true"
    narrow = "optimizer.main_grads_dtype=bf16"
    reduced = "mixed_precision.grad_reduce_in_fp32=false"
    in_bf16 = {"gradients": "bf16", "main_params": "fp32"}
    for more, precision in (
        ((aware, narrow), "bf16"),
        ((aware, reduced), in_bf16),
        (("mixed_precision=fp16_mixed",), "fp16"),
    ):
        found = read(launch_of(None, (*words, *more), env=GPUS))
        assert found.field(f"{TRAINING}/precision") == precision, more


def test_what_stands_behind_a_recipe_counts_over_it() -> None:
    found = read(launch_of(None, words_of("gpt_oss_pretrain"), env=GPUS))
    assert not found.left_out
    assert (found.field("/parallelism/pp"), found.field("/parallelism/tp")) == (2, 2)
    assert found.field("/training/global_batch_size") == 128
    said = {each.pointer: each.whose for each in found.account.defaulted}
    assert said["/parallelism/etp"].startswith("Megatron-Bridge main, gpt_oss_20b_pretrain")


def test_a_variable_that_is_set_already_stays() -> None:
    words = ("run_recipe.py", "--recipe", "llama31_405b_pretrain_256gpu_gb200_bf16_config")
    shell = {**GPUS, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}
    assert read(launch_of(None, words, env=shell)).field("/framework/expandable_segments") is False


def test_no_key_goes_unnoticed() -> None:
    gpus = {"parallelism": {"num_gpus": 32}}
    launch = launch_of(None, words_of("gpt_oss_pretrain"), overrides=gpus)
    assert check_every_key(launch) > 5


def test_a_recipe_that_nobody_knows_is_named() -> None:
    with pytest.raises(LaunchError, match=r"--recipe: no recipe of this name is known"):
        read(launch_of(None, ("run_recipe.py", "--recipe", "ours_config"), env=GPUS))


def test_a_model_and_a_mode_name_a_recipe() -> None:
    words = ("run_recipe.py", "--model", "gpt_oss_20b", "--mode", "pretrain")
    whole = ("run_recipe.py", "--recipe", "gpt_oss_20b_pretrain_config")
    assert read(launch_of(None, words, env=GPUS)).job == read(launch_of(None, whole, env=GPUS)).job
    found = read(launch_of(None, (*words[:4], "lora"), env=GPUS))
    assert found.unsupported == set()
    assert found.field("/training/peft") == {
        "method": "lora",
        "r": 32,
        "dropout": 0.0,
        "target_modules": ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"],
    }
    dropped = read(launch_of(None, (*words[:4], "lora", "peft.dropout=0.1"), env=GPUS))
    assert dropped.field("/training/peft/dropout") == 0.1


def test_a_release_says_what_its_recipe_was() -> None:
    words = (
        "run_recipe.py",
        "--recipe",
        "gpt_oss_20b_pretrain_config",
        "model.context_parallel_size=2",
    )
    others = {"env": {"WORLD_SIZE": "64"}}
    new = read(launch_of(None, words, framework_version="v0.6.0", **others))
    old = read(launch_of(None, words, framework_version="0.3.1", **others))
    assert new.field("/parallelism/cp_comm_type") == "a2a"
    assert old.field("/parallelism/cp_comm_type") is None
    with pytest.raises(LaunchError, match=r"known of Megatron-Bridge .*, not of 0\.1\.0"):
        read(launch_of(None, words, framework_version="0.1.0", **others))


@pytest.mark.parametrize("name", sorted(recipes())[::13])
def test_every_key_of_a_recipe_is_known(name: str) -> None:
    for recipe in recipes()[name]:
        found = read(
            launch_of(
                None,
                ("run_recipe.py", "--recipe", name),
                framework_version=recipe.releases[0],
                overrides={"parallelism": {"num_gpus": 2048}},
            )
        )
        keys = {each.key: each.why for each in found.account.unsupported}
        unknown = {key for key, why in keys.items() if "no list of this format" in why}
        assert unknown <= {"model.keep_mtp_spec_in_bf16", "model.moe_a2a_overlap"}


LOOP = """#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
IMAGE=""
if [ -z "$IMAGE" ]; then
    echo "set the image"
    exit 1
fi
for CONFIG in LAYOUTS; do
    OLD=$IFS
    IFS=',' read -r TP PP <<< "$CONFIG"
    IFS=$OLD
    CMD="python scripts/training/run_recipe.py --recipe gpt_oss_20b_pretrain_config"
    CMD="$CMD model.tensor_model_parallel_size=$TP model.pipeline_model_parallel_size=$PP"
    srun --container-image=$IMAGE bash -c "$CMD"
    STATUS=$?
    if [ $STATUS -ne 0 ]; then
        echo "failed"
        continue
    fi
done
"""


def looped(layouts: str, gpu: Any = "H100-80GB") -> Any:
    text = LOOP.replace("LAYOUTS", layouts)
    launch = {"files": [{"path": "run.sh", "content": text}], "gpu": gpu}
    return fit_check({"launch": launch}, suggest=False)


def test_a_verdict_that_every_run_of_a_script_has_stands() -> None:
    answer = looped("2,4 4,2")
    assert answer.verdict == "fits"
    alone = {layout: looped(layout).estimate.binding.device_bytes.high for layout in ("2,4", "4,2")}
    assert answer.estimate.binding.device_bytes.high == max(alone.values())
    (told,) = [each.text for each in answer.estimate.assumptions if each.id == "open-facts"]
    assert told.endswith(("Here: run 1.", "Here: run 2."))


def test_where_runs_differ_it_is_said_and_what_to_give() -> None:
    answer = looped("1,1 4,2", {"name": "small", "memory_bytes": 40 * 2**30})
    assert answer.verdict == "unknown"
    (missing,) = answer.not_modelled
    assert missing.pointer == "/launch/argv"
    assert missing.message.startswith("starts more than one program that trains: run_recipe.py, ")
    assert "give the command of one of them in argv" in missing.message
    assert missing.message.endswith("does not fit with run 1, fits with run 2")


def test_stages_in_lists_are_a_layout() -> None:
    name = "deepseek_v3_pretrain_config"
    found = read(launch_of(None, ("run_recipe.py", "--recipe", name), env={"WORLD_SIZE": "1024"}))
    layout = found.field("/parallelism/pipeline_model_parallel_layout")
    assert layout.count("t") == 61
    assert layout.startswith("Et")
    assert layout.endswith("L")


def test_what_every_run_of_a_script_lacks_is_asked_for() -> None:
    train = "python run_recipe.py --recipe ours_config model.tensor_model_parallel_size="
    with pytest.raises(LaunchError, match="would come from a recipe"):
        read(launch_of({"run.sh": f"{train}1\n{train}2\n"}))
    step = "swift sft --model Qwen/Qwen3-8B --torch_dtype bfloat16 --deepspeed zero3 --tuner_type "
    launch = {"files": [{"path": "run.sh", "content": f"{step}full\n{step}lora\n"}]}
    with pytest.raises(QuestionError, match="nothing says how long a sample is"):
        fit_check({"launch": {**launch, "gpu": "H100-80GB"}}, suggest=False)

"""Models that a launch names by a path, or by a name that reads like one."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read
from trainfit.catalog.configs import bundled_config
from trainfit.launch.errors import LaunchError

WORDS = (
    "torchrun --nproc_per_node 8 train.py --bf16 True --per_device_train_batch_size 1 "
    "--model_max_length 512 --torch_dtype bfloat16 --model_name_or_path"
)
LLAMA = "meta-llama/Llama-2-7b-hf"


@pytest.mark.parametrize(
    ("path", "hf_id"),
    [
        ("path_to/Llama-2-7b-hf", LLAMA),
        ("checkpoints/Llama-2-7b-hf", LLAMA),
        ("/data/models/Llama-2-7b-hf/", LLAMA),
        ("~/model_weights/llama-7b", "huggyllama/llama-7b"),
        ("/hub/models--meta-llama--Llama-2-7b-hf/snapshots/0123abcd", LLAMA),
        ("/m/Qwen/Qwen2___5-0___5B", "Qwen/Qwen2.5-0.5B"),
        # ModelScope has it under another owner.
        ("ZhipuAI/GLM-4-9B-0414", "THUDM/GLM-4-9B-0414"),
        ("LLM-Research/Meta-Llama-3.1-8B-Instruct", "NousResearch/Meta-Llama-3.1-8B-Instruct"),
        ("AI-ModelScope/nothing-that-is-known", "AI-ModelScope/nothing-that-is-known"),
        # A repository stays what it is, whether it is bundled or not.
        ("NousResearch/Llama-2-7b-hf", "NousResearch/Llama-2-7b-hf"),
        ("path_to/nothing-that-is-known", "path_to/nothing-that-is-known"),
    ],
)
def test_the_model_is_the_bundled_one_of_its_last_name(path: str, hf_id: str) -> None:
    assert read(launch_of(argv=[*WORDS.split(), path])).field("/model/hf_id") == hf_id


QUANTISED = "TechxGenus/Meta-Llama-3-8B-Instruct-GPTQ"
FACTORY = "stage: sft\ncutoff_len: 2048\ntemplate: llama3\n"


@pytest.mark.parametrize(
    ("path", "hf_id"),
    [
        (QUANTISED, "NousResearch/Meta-Llama-3-8B-Instruct"),
        ("a/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-7B-Instruct"),
        ("/models/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct"),
        ("b/Llama-3.2-3B-bnb-4bit", "meta-llama/Llama-3.2-3B"),
        ("a/nothing-that-is-known-GPTQ", "a/nothing-that-is-known-GPTQ"),
    ],
)
def test_weights_that_are_quantised_are_those_of_their_model(path: str, hf_id: str) -> None:
    found = read(launch_of(argv=[*WORDS.split(), path]))
    assert found.field("/model/hf_id") == hf_id
    assert ("model_name_or_path" in found.unsupported) is (hf_id != path)


def test_weights_of_bitsandbytes_are_those_that_it_makes() -> None:
    config = f"{FACTORY}model_name_or_path: b/Llama-3.2-3B-bnb-4bit\nfinetuning_type: lora\n"
    overrides = {"parallelism": {"num_gpus": 1}}
    for more, left_out in (("", {"model_name_or_path"}), ("quantization_bit: 4\n", set())):
        found = read(launch_of({"a.yaml": config + more}, overrides=overrides))
        assert found.left_out == left_out


def test_quantised_weights_below_adapters_only_lower_the_peak() -> None:
    config = f"{FACTORY}model_name_or_path: {QUANTISED}\nfinetuning_type: lora\n"
    overrides = {"parallelism": {"num_gpus": 1}}
    for more, direction in (("", "lowers"), ("disable_gradient_checkpointing: true\n", "either")):
        found = read(launch_of({"a.yaml": config + more}, overrides=overrides))
        (told,) = found.account.unsupported
        assert (told.key, told.direction) == ("model_name_or_path", direction)


@pytest.mark.parametrize(("size", "billions"), [("7b", 6.74), ("30b", 32.53), ("65b", 65.28)])
def test_the_first_llamas_have_the_parameters_of_their_paper(size: str, billions: float) -> None:
    bundled = bundled_config(f"huggyllama/llama-{size}")
    assert bundled is not None
    config = bundled.config
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    layer = 4 * hidden**2 + 3 * hidden * inner
    total = config["num_hidden_layers"] * layer + 2 * config["vocab_size"] * hidden
    assert round(total / 1e9, 2) == billions


TRAIN = (
    "torchrun --nproc_per_node 8 train.py --model_name_or_path {} --torch_dtype bfloat16 --bf16 "
    "--per_device_train_batch_size 1 --max_length 4096 --output_dir out"
)


@pytest.mark.parametrize(
    "path", ["$HOME/models/Qwen2.5-7B", "${MODELS}/Qwen2.5-7B/", "$(hostname)/$X/Qwen2.5-7B"]
)
def test_the_end_of_a_path_tells_a_model_whatever_stands_before(path: str) -> None:
    found = read(launch_of({"run.sh": TRAIN.format(path)}))
    assert found.defaulted["/model/hf_id"] == "Qwen/Qwen2.5-7B"
    assert "model_name_or_path" in found.recognised


@pytest.mark.parametrize("path", ["$MODEL", "$HOME/models/mine", "$HOME/$NAME", "$ORG-Qwen2.5-7B"])
def test_another_is_asked_for(path: str) -> None:
    with pytest.raises(LaunchError, match="is not known"):
        read(launch_of({"run.sh": TRAIN.format(path)}))


def test_so_does_that_of_verls_actor() -> None:
    words = (
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
        "actor_rollout_ref.model.path=$HOME/verl/models/Qwen2.5-7B "
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"
    )
    found = read(launch_of({"run.sh": words}))
    assert found.defaulted["/model/hf_id"] == "Qwen/Qwen2.5-7B"


@pytest.mark.parametrize(
    "command",
    [
        "python run_clm.py --model_name_or_path $BASE --per_device_train_batch_size 1",
        "trl sft --model_name_or_path $BASE --per_device_train_batch_size 1 --max_length 512",
        "llamafactory-cli train --model_name_or_path $BASE --per_device_train_batch_size 1",
        "swift sft --model ${BASE}/checkpoint --per_device_train_batch_size 1 --max_length 512",
        "megatron sft --model $BASE --max_length 512 --micro_batch_size 1",
        "python -m verl.trainer.sft_trainer model.path=$BASE data.micro_batch_size_per_gpu=1",
        "litgpt finetune $BASE --train.micro_batch_size 1 --train.max_seq_length 512",
    ],
)
def test_what_is_not_known_of_a_model_is_told_by_the_model_itself(command: str) -> None:
    model = {"hf_id": "Qwen/Qwen2.5-0.5B"}
    overrides = {"model": model, "parallelism": {"num_gpus": 1}, "training": {"seq_length": 512}}
    found = read(launch_of({"train.sh": command}, overrides=overrides))
    assert found.job["model"] == model
    with pytest.raises(LaunchError, match="BASE is not set; give it in env"):
        read(launch_of({"train.sh": command}, overrides={"parallelism": {"num_gpus": 1}}))

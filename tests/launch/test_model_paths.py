"""Models that a launch names by a path, or by a name that reads like one."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read
from trainfit.catalog.configs import bundled_config

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
        # A repository stays what it is, whether it is bundled or not.
        ("NousResearch/Llama-2-7b-hf", "NousResearch/Llama-2-7b-hf"),
        ("path_to/nothing-that-is-known", "path_to/nothing-that-is-known"),
    ],
)
def test_the_model_is_the_bundled_one_of_its_last_name(path: str, hf_id: str) -> None:
    assert read(launch_of(argv=[*WORDS.split(), path])).field("/model/hf_id") == hf_id


@pytest.mark.parametrize(("size", "billions"), [("7b", 6.74), ("30b", 32.53), ("65b", 65.28)])
def test_the_first_llamas_have_the_parameters_of_their_paper(size: str, billions: float) -> None:
    bundled = bundled_config(f"huggyllama/llama-{size}")
    assert bundled is not None
    config = bundled.config
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    layer = 4 * hidden**2 + 3 * hidden * inner
    total = config["num_hidden_layers"] * layer + 2 * config["vocab_size"] * hidden
    assert round(total / 1e9, 2) == billions

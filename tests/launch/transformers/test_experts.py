"""Experts that run one after the other before transformers 5.0, and in grouped products since."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of
from trainfit.launch.read import read_launch

LOOPS = ["mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-30B-A3B", "allenai/OLMoE-1B-7B-0924"]
FIELD = "experts_one_by_one"


def framework(model: str, release: str) -> dict[str, object]:
    words = ["torchrun", "--nproc_per_node=1", "train.py", f"--model_name_or_path={model}"]
    words += ["--bf16=true", "--per_device_train_batch_size=2", "--max_length=2048"]
    job = read_launch(launch_of(None, words, framework_version=release)).job
    framework: dict[str, object] = job["framework"]
    return framework


@pytest.mark.parametrize("model", LOOPS)
def test_experts_in_a_list_run_one_by_one_until_they_are_stacked(model: str) -> None:
    assert framework(model, "transformers==4.57.1")[FIELD]
    assert FIELD not in framework(model, "transformers==5.0.0")


@pytest.mark.parametrize("model", ["openai/gpt-oss-20b", "meta-llama/Llama-3.1-8B"])
def test_stacked_experts_and_no_experts_never_do(model: str) -> None:
    assert FIELD not in framework(model, "transformers==4.57.1")

"""When CUDA loads kernels, by the release of PyTorch and what transformers imports before it."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of
from trainfit.launch.read import read_launch

FIELD = "cuda_module_loading"
BEFORE, SINCE = "transformers==4.45.2", "transformers==4.48.1"


def loading(
    release: str | None, attention: str = "flash_attention_2", command: str = "torchrun"
) -> object:
    words = [
        *command.split(),
        "--nproc_per_node=1",
        "train.py",
        f"--attn_implementation={attention}",
    ]
    words += ["--model_name_or_path=meta-llama/Llama-3.1-8B", "--bf16=true"]
    words += ["--per_device_train_batch_size=2", "--max_length=2048"]
    return (
        read_launch(launch_of(None, words, framework_version=release)).job["framework"].get(FIELD)
    )


@pytest.mark.parametrize(
    "release", ["torch==2.5.1", "torch==2.8.0+cu128", f"{BEFORE} torch==2.6.0"]
)
def test_cuda_since_12_4_loads_kernels_as_they_run(release: str) -> None:
    assert loading(release) == "lazy"


def test_earlier_ones_load_all_where_importing_trainer_asks_for_a_gpu() -> None:
    assert loading(f"{SINCE} torch==2.4.1") == "eager"


@pytest.mark.parametrize(
    ("release", "attention"),
    [
        (None, "flash_attention_2"),
        (SINCE, "flash_attention_2"),
        (f"{SINCE} torch==2.4.1", "sdpa"),
        (f"{BEFORE} torch==2.4.1", "flash_attention_2"),
    ],
)
def test_it_is_open_where_nothing_decides_it(release: str | None, attention: str) -> None:
    assert loading(release, attention) is None


@pytest.mark.parametrize("mode", ["LAZY", "EAGER"])
def test_the_environment_counts_before_releases(mode: str) -> None:
    command = f"env CUDA_MODULE_LOADING={mode} torchrun"
    assert loading(f"{SINCE} torch==2.4.1", command=command) == mode.lower()


@pytest.mark.parametrize(("torch", "mode"), [("2.4.1", "eager"), ("2.6.0", "lazy")])
def test_the_default_is_that_of_its_cuda(torch: str, mode: str) -> None:
    command = "env CUDA_MODULE_LOADING=DEFAULT torchrun"
    assert loading(f"{BEFORE} torch=={torch}", command=command) == mode


def test_a_variable_of_which_nothing_is_known_leaves_it_open() -> None:
    script = "export CUDA_MODULE_LOADING=$1\ntorchrun --nproc_per_node=1 train.py --bf16=true "
    script += "--model_name_or_path=meta-llama/Llama-3.1-8B --per_device_train_batch_size=2 "
    script += "--max_length=2048 --attn_implementation=flash_attention_2\n"
    release = f"{SINCE} torch==2.4.1"
    read = read_launch(launch_of({"run.sh": script}, ["bash", "run.sh"], framework_version=release))
    assert FIELD not in read.job["framework"]

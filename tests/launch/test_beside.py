"""What a script starts beside the program that trains."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read
from trainfit.launch.errors import LaunchError

SFT = """
model_name_or_path: Qwen/Qwen3-8B
per_device_train_batch_size: 2
max_length: 2048
"""
LLAMA_FACTORY = SFT + "finetuning_type: full\ncutoff_len: 2048\nstage: sft\n"
AXOLOTL = """
base_model: Qwen/Qwen3-8B
micro_batch_size: 2
sequence_len: 2048
"""
TOOLS = (
    "MODEL=$(grep model config.yaml)",
    "find . -name '*.pyc' | xargs rm -f",
    "rm -rf out",
    "clear",
    "nvidia-smi -L | tee gpus.txt",
    "trl vllm-serve --model Qwen/Qwen3-8B &",
)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("config", "command"),
    [
        (SFT, "accelerate launch --num_processes 8 sft.py --config config.yaml"),
        (SFT, "trl sft --config config.yaml --num_processes 8"),
        (LLAMA_FACTORY, "torchrun --nproc_per_node 8 src/train.py config.yaml"),
        (AXOLOTL, "axolotl train config.yaml -- --num_processes 8"),
    ],
)
def test_a_tool_is_not_taken_for_the_program(config: str, command: str, tool: str) -> None:
    files = {"run.sh": f"{tool}\n{command}\n", "config.yaml": config}
    assert read(launch_of(files)).field("/training/micro_batch_size") == 2


@pytest.mark.parametrize(
    ("config", "beside", "command"),
    [
        (AXOLOTL, "axolotl preprocess config.yaml", "axolotl train config.yaml"),
        (AXOLOTL, "python -m axolotl.cli.preprocess config.yaml", "axolotl train config.yaml"),
        (AXOLOTL, "axolotl merge-lora config.yaml", "python -m axolotl.cli.train config.yaml"),
        (
            LLAMA_FACTORY,
            "llamafactory-cli export config.yaml",
            "llamafactory-cli train config.yaml",
        ),
    ],
)
def test_commands_of_a_tool_that_do_not_train(config: str, beside: str, command: str) -> None:
    files = {"run.sh": f"{command}\n{beside}\n", "config.yaml": config}
    eight = {"parallelism": {"num_gpus": 8}}
    assert read(launch_of(files, overrides=eight)).field("/training/micro_batch_size") == 2
    files["run.sh"] = beside
    with pytest.raises(LaunchError, match="holds no launch that is recognised"):
        read(launch_of(files, overrides=eight))

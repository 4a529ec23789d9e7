"""Tasks of SkyPilot and of dstack."""

from __future__ import annotations

import pytest

from tests.launch.commands.programs import command_line, launch, num_gpus, program
from tests.launch.launches import launch_of, read
from trainfit.launch.commands.unwrap import programs_of
from trainfit.launch.errors import LaunchError

SKY = """
resources:
  accelerators: H100:8
num_nodes: 2
envs: {MODEL: Qwen/Qwen3-8B}
setup: |
  torchrun setup.py
run: |
  source ~/venv/bin/activate
  torchrun --nnodes $SKYPILOT_NUM_NODES --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE \\
    train.py --model $MODEL
"""
DSTACK = """
type: task
name: trl-train
env:
  - WANDB_API_KEY
  - MODEL_ID=Qwen/Qwen3-0.6B
commands:
  - pip install trl
  - accelerate launch --num_processes $DSTACK_GPUS_NUM t.py --model $MODEL_ID ${{ run.args }}
resources:
  gpu: 80GB:4
"""


def test_a_task_of_skypilot_is_what_it_runs() -> None:
    found = program(task_yaml=SKY)
    assert (command_line(found), num_gpus(found)) == ("train.py --model Qwen/Qwen3-8B", 16)
    assert found.allocation.gpu is not None
    assert found.allocation.gpu.value == "H100"


@pytest.mark.parametrize(("gpu", "count"), [("80GB:4", "4"), ("24GB", "1"), ("1..8", None)])
def test_a_task_of_dstack_is_its_commands(gpu: str, count: str | None) -> None:
    programs = programs_of(launch(task_yaml=DSTACK.replace("80GB:4", gpu))).programs
    (found,) = [each for each in programs if each.name == "t.py"]
    assert command_line(found) == "t.py --model Qwen/Qwen3-0.6B"
    told = found.launcher_settings["num_processes"]
    assert (told.value if told.unknown is None else None) == count


def test_neither_a_directory_nor_what_starts_a_script_tells_whose_defaults_hold() -> None:
    words = "accelerate launch --num_processes 8 {} --model_name_or_path Qwen/Qwen3-8B"
    found = read(launch_of(argv=words.format("sft.py").split()))
    assert found.field("/training/micro_batch_size") == 8
    with pytest.raises(LaunchError, match="how many samples"):
        read(launch_of(argv=words.format("/sft/train.py").split()))
    with pytest.raises(LaunchError, match="how many samples"):
        read(launch_of({"run_sft.sh": words.format("train.py")}))


MOSAIC = """
name: mpt-1b
image: mosaicml/llm-foundry:latest
compute:
  gpus: 16
env_variables:
  - key: TOKEN
    value: abc
command: |
  cd llm-foundry/scripts
  composer train/train.py /mnt/config/parameters.yaml
parameters:
  # what it is trained on
  max_seq_len: 2048
  model:
    name: mpt_causal_lm
    d_model: 2048
    n_heads: 16
    n_layers: 24
    expansion_ratio: 4
    max_seq_len: ${max_seq_len}
    vocab_size: 50368
  train_loader: {name: text}
  device_train_microbatch_size: 4
  global_train_batch_size: 128
  optimizer: {name: decoupled_adamw}
  fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE}
"""


def test_a_run_of_mosaic_has_its_parameters_as_a_file() -> None:
    found = read(launch_of({"run.yaml": MOSAIC}))
    assert found.field("/parallelism/num_gpus") == 16
    assert found.field("/training/seq_length") == 2048
    (micro,) = [
        each for each in found.account.recognised if each.key == "device_train_microbatch_size"
    ]
    line = MOSAIC.splitlines().index("  device_train_microbatch_size: 4") + 1
    assert (micro.file, micro.line) == ("run.yaml", line)


@pytest.mark.parametrize("variables", ["5", "true", "abc", "[1]", "{A: 1}"])
def test_variables_of_a_run_of_mosaic_may_be_of_another_kind(variables: str) -> None:
    pairs = "\n  - key: TOKEN\n    value: abc"
    assert pairs in MOSAIC
    found = read(launch_of({"run.yaml": MOSAIC.replace(pairs, f" {variables}")}))
    assert found.field("/parallelism/num_gpus") == 16


def test_a_run_of_mosaic_without_parameters_is_its_command() -> None:
    text = MOSAIC.partition("parameters:")[0].replace("/mnt/config/parameters.yaml", "t.yaml")
    found = program(run_yaml=text)
    assert (command_line(found), num_gpus(found)) == ("train.py t.yaml", 16)

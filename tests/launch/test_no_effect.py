"""What is told beside a launch and cannot hold, or changes nothing."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read
from trainfit.launch.errors import LaunchError
from trainfit.launch.read import read_launch

GPUS = {"parallelism": {"num_gpus": 2}}
AXOLOTL = """base_model: Qwen/Qwen3-8B
micro_batch_size: 1
gradient_accumulation_steps: 1
sequence_len: 2048
bf16: true
optimizer: adamw_torch_fused
datasets: []
"""
TUNE = """model:
  _component_: torchtune.models.llama3_1.llama3_1_8b
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  max_seq_len: 2048
optimizer:
  _component_: torch.optim.AdamW
  fused: true
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
batch_size: 2
gradient_accumulation_steps: 1
dtype: bf16
device: cuda
"""


def test_the_vocabulary_of_a_config_json_is_its_own() -> None:
    rows = {"model": {"spec": {"vocab_size": 64000}}, "parallelism": {"num_gpus": 8}}
    with pytest.raises(LaunchError, match="Qwen3-8B says its vocabulary; leave this out") as error:
        read_launch(launch_of({"a.yaml": AXOLOTL}, overrides=rows))
    assert str(error.value).startswith("/model/spec/vocab_size of the overrides: ")


def test_a_model_in_the_place_of_it_has_a_vocabulary() -> None:
    spec = {"num_layers": 2, "hidden_size": 256, "num_attention_heads": 8, "vocab_size": 1000}
    overrides = {"model": {"hf_id": None, "spec": spec}, "parallelism": {"num_gpus": 8}}
    found = read(launch_of({"a.yaml": AXOLOTL}, overrides=overrides))
    assert found.field("/model/spec/vocab_size") == 1000


def test_a_release_that_decides_nothing_is_said_to() -> None:
    words = (
        "tune",
        "run",
        "--nproc_per_node",
        "2",
        "full_finetune_distributed",
        "--config",
        "c.yaml",
    )
    found = read(launch_of({"c.yaml": TUNE}, words, framework_version="0.6"))
    assert "framework_version" in found.irrelevant
    assert "framework_version" not in read(launch_of({"c.yaml": TUNE}, words)).irrelevant


def test_a_name_of_the_run_is_a_part_of_paths() -> None:
    found = read(launch_of({"a.yaml": f"{TUNE}name: sft\noutput_dir: /tmp/x\n"}, overrides=GPUS))
    assert "name" in found.irrelevant


SWIFT = "swift sft --model Qwen/Qwen2.5-VL-7B-Instruct --max_length 2048 --torch_dtype bfloat16"


@pytest.mark.parametrize(("said", "left_out"), [("true", False), ("false", True)])
def test_a_tower_that_is_checkpointed_is_as_by_default(said: str, left_out: bool) -> None:
    """swift/arguments/sft_args.py: vit_gradient_checkpointing is gradient_checkpointing's."""
    words = [*SWIFT.split(), "--vit_gradient_checkpointing", said]
    found = read(launch_of(argv=words, env={"NPROC_PER_NODE": "2"}))
    assert ("vit_gradient_checkpointing" in found.unsupported) is left_out

"""How a command of axolotl's sets PyTorch's allocator up."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read

CONFIG = """
base_model: Qwen/Qwen3-8B
sequence_len: 4096
micro_batch_size: 1
bf16: true
"""
COMMAND = "axolotl train a.yaml"
MODULE = "accelerate launch --num_processes 1 -m axolotl.cli.train a.yaml"


@pytest.mark.parametrize(
    ("words", "environment", "grows", "divisions"),
    [
        (COMMAND, {}, True, [16]),
        (COMMAND, {"PYTORCH_HIP_ALLOC_CONF": "expandable_segments:False"}, True, [16]),
        (COMMAND, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}, False, None),
        (COMMAND, {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128"}, None, None),
        (MODULE, {}, None, None),
    ],
)
def test_its_command_has_segments_grow_where_no_variable_says_otherwise(
    words: str, environment: dict[str, str], grows: bool | None, divisions: list[int] | None
) -> None:
    one = {"parallelism": {"num_gpus": 1}}
    asked = launch_of({"a.yaml": CONFIG}, words.split(), env=environment, overrides=one)
    fields = read(asked).fields()
    assert fields.get("/framework/expandable_segments") is grows
    assert fields.get("/framework/roundup_power2_divisions") == divisions


@pytest.mark.parametrize(("version", "divisions"), [("0.16.1", [16]), ("0.17.0", None)])
def test_its_command_rounds_requests_no_more_since_0_17(
    version: str, divisions: list[int] | None
) -> None:
    one = {"parallelism": {"num_gpus": 1}}
    asked = launch_of({"a.yaml": CONFIG}, COMMAND.split(), overrides=one, framework_version=version)
    fields = read(asked).fields()
    assert fields.get("/framework/expandable_segments") is True
    assert fields.get("/framework/roundup_power2_divisions") == divisions

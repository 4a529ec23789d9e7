"""Command lines of Megatron-LM for tests: a small model, and what an answer holds."""

from __future__ import annotations

from typing import Any

from trainfit.launch.read import read_launch
from trainfit.launch.reading import LaunchReading
from trainfit.specs.launch import Launch

SMALL = (
    "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --max-position-embeddings 1024 "
    "--seq-length 1024 --micro-batch-size 1 --vocab-size 32000 --tensor-model-parallel-size 1 "
    "--bf16"
)
"""A whole command line; the number of GPUs stands in the environment."""


def launch_of(words: str, version: str | None = None, **environment: str) -> Launch:
    return Launch(
        argv=("pretrain_gpt.py", *words.split()),
        env={"WORLD_SIZE": "8"} | environment,
        framework_version=version,
    )


def read(words: str, version: str | None = None, **environment: str) -> LaunchReading:
    return read_launch(launch_of(words, version, **environment))


def became(reading: LaunchReading, key: str) -> dict[str, Any]:
    """What a recognised key set."""
    [found] = [each for each in reading.launch.account.recognised if each.key == key]
    return {each.pointer: each.value for each in found.became}


def unsupported(reading: LaunchReading) -> dict[str, str]:
    return {each.key: each.why for each in reading.launch.account.unsupported}

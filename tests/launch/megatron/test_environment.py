"""Variables that size buffers: what they can add is bounded where they say how much."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read

COMMAND = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
    "--num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 "
    "--micro-batch-size 1 --bf16"
)


@pytest.mark.parametrize(
    ("value", "total"),
    [
        (":4096:8", 4 * 32 * 2**20),
        (":16:8", 4 * 128 * 2**10),
        (":4096:2:16:8", 4 * (8192 + 128) * 2**10),
    ],
)
def test_workspaces_of_cublas_are_what_it_says_on_every_stream(value: str, total: int) -> None:
    env = {"CUBLAS_WORKSPACE_CONFIG": value}
    (bounded,) = read(launch_of(argv=COMMAND.split(), env=env)).account.bounded
    assert (bounded.direction, bounded.bytes) == ("raises", total)


@pytest.mark.parametrize("value", ["4096", ":4096", ":a:b", ":16:8,"])
def test_what_it_does_not_say_is_not_bounded(value: str) -> None:
    found = read(launch_of(argv=COMMAND.split(), env={"CUBLAS_WORKSPACE_CONFIG": value}))
    assert found.unsupported == {"CUBLAS_WORKSPACE_CONFIG"}

"""Rows that axolotl adds to an embedding."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.launch.launches import launch_of, read

BASE = {"base_model": "Qwen/Qwen3-8B", "sequence_len": 2048, "micro_batch_size": 1, "bf16": True}
HIDDEN, LENGTH = 4096, 2048


@pytest.mark.parametrize(
    ("keys", "rows"),
    [
        ({"tokens": ["<a>", "<b>"]}, 2),
        ({"resize_token_embeddings_to_32x": True}, 31),
        ({"resize_token_embeddings_to_32x": False}, 0),
    ],
)
def test_they_are_bounded(keys: dict[str, Any], rows: int) -> None:
    """Each has a row of the embedding and of the head with all states, and logits of each token."""
    files = {"run.json": json.dumps(BASE | keys)}
    overrides = {"parallelism": {"num_gpus": 8}}
    found = read(launch_of(files, ["axolotl", "train", "run.json"], overrides=overrides))
    (key,) = keys
    assert not found.unsupported
    told = [each.bytes for each in found.account.bounded if each.key == key]
    assert told == ([rows * (2 * HIDDEN * 20 + LENGTH * 12)] if rows else [])

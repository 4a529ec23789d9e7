"""Layers of each pipeline stage where torchtitan shares them out."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.questions.estimate import plan_of
from trainfit.specs.job import Job


def layers(pp: int, num_layers: int, **parallelism: Any) -> list[int]:
    job = {
        "model": {"hf_config": {"model_type": "llama", "num_hidden_layers": num_layers}},
        "parallelism": {"num_gpus": pp, "pp": pp, **parallelism},
        "training": {"seq_length": 128, "micro_batch_size": 1},
        "framework": {"name": "torchtitan"},
    }
    pipeline = plan_of(Job.model_validate(job)).layout.pipeline
    return [stage.layers for stage in pipeline.virtual_stages]


@pytest.mark.parametrize(
    ("pp", "num_layers", "expected"),
    [
        (1, 5, [5]),
        (2, 32, [16, 16]),
        (4, 32, [8, 9, 8, 7]),
        (4, 61, [15, 16, 16, 14]),
        (4, 4, [1, 2, 1, 0]),
    ],
)
def test_embedding_and_head_count_as_a_layer_each(
    pp: int, num_layers: int, expected: list[int]
) -> None:
    assert layers(pp, num_layers) == expected


def test_chunks_of_a_rank_are_stages_too() -> None:
    assert layers(2, 8, pipeline_schedule="interleaved", vpp=2) == [2, 3, 2, 1]


def test_what_a_job_says_comes_first() -> None:
    assert layers(4, 8, num_layers_in_last_pipeline_stage=2) == [2, 2, 2, 2]

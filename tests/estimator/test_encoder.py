"""A tower of images, of whose tokens nobody knows how many there are."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.questions.estimate import answer
from trainfit.specs.job import Job

QWEN = "Qwen/Qwen2.5-VL-7B-Instruct"
LAYERS, WIDTH, FFN = 32, 1280, 3420
"""Of its tower's config; each token is made of 2 x 2 patches."""


def estimated(name: str = QWEN, framework: str = "transformers", **training: Any) -> Any:
    sizes = {"micro_batch_size": 2, "seq_length": 1024, "num_microbatches": 1}
    return answer(
        Job.model_validate(
            {
                "model": {"hf_id": name},
                "parallelism": {"num_gpus": 8},
                "training": sizes | {"attention": {"backend": "flash"}} | training,
                "framework": {"name": framework},
                "gpu": "H200",
            }
        )
    )


def width_of_bounds(estimate: Any) -> int:
    allocated = estimate.stages[0].allocated_bytes
    return int(allocated.high - allocated.low)


@pytest.mark.parametrize("granularity", ["full", None])
def test_the_bounds_span_from_no_image_to_nothing_else(granularity: str | None) -> None:
    """At most it takes what the tower keeps of as many patches, in fp32 where layers run again, and
    what backward has there beside it: one layer, and the gradients of the tower's weights.
    """
    patches = 2 * 1024 * 4
    found = estimated(recompute={"granularity": granularity})
    whole = estimated(recompute={"granularity": granularity}, image_tokens=1024)
    text = estimated("Qwen/Qwen2.5-7B", recompute={"granularity": granularity})
    assert not found.warnings
    assert "encoder-bounded" in {each.id for each in found.assumptions}
    around = width_of_bounds(text) * found.stages[0].allocated_bytes.expected
    around //= text.stages[0].allocated_bytes.expected
    at_most = width_of_bounds(found) - around
    none, every = (each.stages[0].allocated_bytes for each in (found, whole))
    assert every.expected - none.expected <= at_most
    gradients = 4 * found.model.parameters.by_bucket["vision"]
    layer = patches * (WIDTH * (11 * 2 + 8 * 4) + FFN * 5 * 2)
    kept = LAYERS * (patches * WIDTH * 4 if granularity == "full" else layer)
    least = kept if granularity == "full" else 0.7 * kept
    assert least < at_most < kept + layer + gradients
    assert every.expected < none.high


@pytest.mark.parametrize(
    ("name", "framework", "backend"),
    [
        (QWEN, "transformers", "eager"),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", "megatron", "flash"),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", "transformers", "flash"),
    ],
)
def test_nothing_bounds_other_towers(name: str, framework: str, backend: str) -> None:
    found = estimated(name, framework, attention={"backend": backend})
    assert any("tower" in each for each in found.warnings)

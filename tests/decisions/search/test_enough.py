"""What fits on no layout of the GPUs that there are is answered with how many it takes."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit import fit_check
from trainfit.decisions.patch import apply
from trainfit.specs.policy import FitCheckRequest


@pytest.mark.parametrize(
    ("model", "parallelism", "framework"),
    [
        ("deepseek-ai/DeepSeek-V3", {"num_gpus": 8, "tp": 8, "pp": 1, "vpp": 1}, "megatron"),
        ("meta-llama/Llama-3.1-70B", {"num_gpus": 2}, "transformers"),
    ],
)
def test_about_so_many_gpus_do(model: str, parallelism: dict[str, int], framework: str) -> None:
    question: dict[str, Any] = {
        "model": {"hf_id": model},
        "parallelism": parallelism,
        "framework": {"name": framework},
        "gpu": "H100-80GB",
    }
    first = fit_check(question).suggestions[0]
    assert first.verdict == "fits"
    assert first.cost.startswith("about ")
    changed = apply(FitCheckRequest.model_validate(question), first.patch)
    assert fit_check(changed).verdict == "fits"
    assert changed.parallelism.num_gpus is not None
    assert changed.parallelism.num_gpus > parallelism["num_gpus"]

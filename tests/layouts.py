"""Layouts of one model, of which some have more in common than others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

DEEPSEEK_V3 = {"hf_id": "deepseek-ai/DeepSeek-V3"}
LAYERS = 61


def deepseek_v3(pp: int, vpp: int) -> Iterator[dict[str, Any]]:
    """64 jobs on so many stages and chunks."""
    rows = product((1, 2, 4, 8), (8, 16, 32, 64), (4096, 8192), (1, 2))
    for tp, ep, seq_length, micro_batch_size in rows:
        yield {
            "model": DEEPSEEK_V3,
            "parallelism": {
                "num_gpus": 8192,
                "tp": tp,
                "pp": pp,
                "ep": ep,
                "pipeline_model_parallel_layout": layout(pp * vpp),
            },
            "training": {"seq_length": seq_length, "micro_batch_size": micro_batch_size},
        }


def layout(stages: int) -> str:
    """The layers over so many virtual stages, the longer ones first."""
    counts = [(LAYERS + stages - 1 - stage) // stages for stage in range(stages)]
    return "E" + "|".join(f"t*{count}" for count in counts) + "mL"

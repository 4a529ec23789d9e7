"""Rows with the parameters of every pipeline rank and chunk of a real megatron-core model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.accuracy.megatron_rows import job_of
from tests.accuracy.outcomes import Counts, counts
from trainfit.estimator.results import Estimate
from trainfit.questions.estimate import answer

Row = dict[str, Any]

CHUNK_COUNTS = {
    "total": "parameters",
    "expert": "expert_parameters",
    "router": "router_parameters",
    "norms": "norm_parameters",
    "embedding": "embedding_parameters",
    "output_layer": "output_layer_parameters",
    "mtp": "mtp_parameters",
}
"""Counts of a row's chunk -> fields of an estimate's."""


def group(row: Row) -> str:  # noqa: ARG001
    return "megatron_stage_parameters"


def price(row: Row, folder: Path) -> dict[str, Counts]:  # noqa: ARG001
    """Every count of every rank and chunk beside the service's."""
    estimate = answer(job_of(row), activations=False)
    return {"": counts(expected_figures(row), counted_figures(estimate))}


def expected_figures(row: Row) -> dict[str, int]:
    outputs = row["outputs"]
    figures = {"expert data-parallel size": outputs["derived_expert_data_parallel_size"]}
    for stage in outputs["stages"]:
        rank = f"rank {stage['pp_rank']}"
        figures[f"{rank} parameters"] = stage["parameters"]
        figures[f"{rank} expert parameters"] = stage["expert_parameters"]
        for chunk in stage["chunks"]:
            where = f"{rank} chunk {chunk['vp_stage']}"
            figures[f"{where} layers"] = chunk["num_layers"]
            figures |= {f"{where} {name}": chunk[name] for name in CHUNK_COUNTS}
            if chunk["mtp"]:
                figures[f"{where} mtp"] += latent_replicas(row)
    return figures


def latent_replicas(row: Row) -> int:
    """What the rows' MTP counts lack: latent down projections, which every tp rank holds whole.

    The rows restore them in a chunk's total, as their note says, but not in its MTP part.
    """
    model = row["model"]
    tp: int = row["parallelism"]["tp"]
    if not model["multi_latent_attention"]:
        return 0
    latents = model["kv_lora_rank"] + model["qk_pos_emb_head_dim"] + (model["q_lora_rank"] or 0)
    held: int = model["hidden_size"] * latents * model["mtp_num_layers"]
    return held - held // tp


def counted_figures(estimate: Estimate) -> dict[str, int]:
    """The service's counts under the names of `expected_figures`."""
    figures = {"expert data-parallel size": estimate.parallelism.expert_dp}
    for stage in estimate.stages:
        rank = f"rank {stage.pp_rank}"
        figures[f"{rank} parameters"] = sum(chunk.parameters for chunk in stage.chunks)
        figures[f"{rank} expert parameters"] = sum(c.expert_parameters for c in stage.chunks)
        for chunk in stage.chunks:
            where = f"{rank} chunk {chunk.vpp_rank}"
            figures[f"{where} layers"] = len(chunk.layers)
            for name, count in CHUNK_COUNTS.items():
                figures[f"{where} {name}"] = getattr(chunk, count)
    return figures

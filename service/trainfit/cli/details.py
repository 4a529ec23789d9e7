"""What `--verbose` adds to the report: components, chunks, defaults, assumptions."""

from __future__ import annotations

import json

from rich.table import Table

from trainfit.cli.terminal import print_all, table
from trainfit.decisions.quantities import gib, plain, ranges
from trainfit.estimator.results import Chunk, Estimate, Stage


def print_details(result: Estimate) -> None:
    """Every table behind the report."""
    print_all(
        *(_components(stage) for stage in result.stages),
        _chunks(result.stages),
        _defaults(result),
        _assumptions(result),
    )


def _components(stage: Stage) -> Table:
    numbers = "bytes", "GiB", "parameters", "on each GPU", "bytes per parameter"
    rows = table(
        ["component"],
        numbers,
        title=f"Components of stage {stage.pp_rank}",
        expendable=["parameters", "bytes per parameter"],
    )
    for each in stage.components:
        states = (
            f"{each.parameter_count:,}",
            f"{each.parameter_count_per_gpu:,}",
            f"{each.bytes_per_parameter:.4g}",
        )
        name, size = plain(each.name), f"{each.bytes:,}"
        rows.add_row(name, size, gib(each.bytes), *(states if each.parameter_count else ()))
    return rows


def _chunks(stages: list[Stage]) -> Table:
    words = "stage", "chunk", "layers"
    numbers = "all", "experts", "router", "norms", "embedding", "output layer", "mtp"
    rows = table(
        words,
        numbers,
        title="Parameters of each chunk on each GPU",
        expendable=["norms", "router", "mtp"],
    )
    for stage in stages:
        for chunk in stage.chunks:
            counts = (f"{number:,}" for number in _counts(chunk))
            rows.add_row(
                str(stage.pp_rank), str(chunk.vpp_rank), ranges(chunk.layers) or "none", *counts
            )
    return rows


def _counts(chunk: Chunk) -> tuple[int, ...]:
    return (
        chunk.parameters,
        chunk.expert_parameters,
        chunk.router_parameters,
        chunk.norm_parameters,
        chunk.embedding_parameters,
        chunk.output_layer_parameters,
        chunk.mtp_parameters,
    )


def _defaults(result: Estimate) -> Table:
    words = "field", "value", "origin", "why"
    rows = table(words, title="Values that were not given")
    for default in result.defaults:
        rows.add_row(default.pointer, json.dumps(default.value), default.origin, default.why)
    return rows


def _assumptions(result: Estimate) -> Table:
    rows = table(["id", "what is taken for granted"], title="Assumptions")
    for assumption in result.assumptions:
        rows.add_row(assumption.id, assumption.text)
    return rows

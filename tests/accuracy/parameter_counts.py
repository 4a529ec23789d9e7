"""Rows with the exact parameter counts that transformers builds from a config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.accuracy.outcomes import Counts, UnusableRowError, counts
from trainfit.architectures.config import ConfigError
from trainfit.architectures.registry import parse_config
from trainfit.estimator.parameters import ParameterCounts, count_parameters
from trainfit.specs.architecture import ModelSpec

Row = dict[str, Any]

IN_LAYERS = {"linear_attention": "linear_attn_or_ssm", "norm": "norms"}
OUTSIDE_LAYERS = {"embedding": "embed_tokens", "output_layer": "lm_head"}
"""Buckets of the service -> those of the rows, where the names differ."""
ELSEWHERE = "elsewhere outside the layers"
"""Positions, norms, towers and the rest: rows and service may draw lines between them apart."""


def group(row: Row) -> str:
    return f"parameter_counts-{row['status']}"


def price(row: Row, folder: Path) -> dict[str, Counts]:
    """The service's counts for the row's config beside the row's own."""
    config = config_of(row, folder)
    if row["status"] == "unsupported":
        raise UnusableRowError(_refusal(config))
    spec = parse_config(config, row["hf_id"])
    return {"": counts(expected_figures(row), counted_figures(spec, count_parameters(spec)))}


def config_of(row: Row, folder: Path) -> dict[str, Any]:
    """The config.json of a row: inline, or a path relative to the row's file."""
    if "config_json" in row:
        inline: dict[str, Any] = row["config_json"]
        return inline
    config: dict[str, Any] = json.loads((folder / row["config"]).read_text("utf-8"))
    return config


def expected_figures(row: Row) -> dict[str, int]:
    """The counts of a row by name: totals, what is outside the layers, each layer's buckets.

    A row without experts leaves out the active parameters, which are then all of them.
    """
    figures = {name: row[name] for name in ("total", "trainable", "n_layers")}
    figures["active"] = row["moe"]["active_params_per_token"] if "moe" in row else row["total"]
    for name in OUTSIDE_LAYERS.values():
        figures[name] = row[name]
    figures[ELSEWHERE] = sum(row["non_layer"].values()) - row["embed_tokens"] - row["lm_head"]
    for index, kind in enumerate(row["layer_type_index"]):
        figures |= _layer(index, row["layer_types"][kind])
    return figures


def counted_figures(spec: ModelSpec, counted: ParameterCounts) -> dict[str, int]:
    """The service's counts under the names of `expected_figures`."""
    figures = {
        "total": counted.total,
        "trainable": counted.trainable,
        "n_layers": spec.num_layers,
        "active": counted.active,
    }
    for bucket, count in counted.outside_layers.items():
        name = OUTSIDE_LAYERS.get(bucket, ELSEWHERE)
        figures[name] = figures.get(name, 0) + count
    for index, kind in enumerate(spec.pattern):
        buckets = counted.layer_kinds[kind]
        figures |= _layer(index, {IN_LAYERS.get(name, name): n for name, n in buckets.items()})
    return figures


def _layer(index: int, buckets: Mapping[str, int]) -> dict[str, int]:
    return {f"layer {index} {name}": count for name, count in buckets.items()}


def _refusal(config: dict[str, Any]) -> str:
    try:
        parse_config(config)
    except ConfigError as refusal:
        return f"refused, as it should be: {refusal}"
    return "supported, and the row has no count to compare with"

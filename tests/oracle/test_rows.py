"""The recorded steps, without PyTorch: what they ask for, and whether their figures add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.oracle.__main__ import differences
from tests.oracle.spec import Optimizer, Precision, Recompute, Spec, SpecError, Strategy

ROWS = [
    json.loads(line)
    for file in ("torch_steps_here.jsonl", "corpus/torch_steps.jsonl")
    for line in (Path(__file__).parents[1] / "data" / file).read_text("utf-8").splitlines()
]
SPECS = [Spec.parse(row["spec"]) for row in ROWS]


def test_every_row_has_a_name_of_its_own() -> None:
    names = [spec.name for spec in SPECS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("field", "kind"),
    [("strategy", Strategy), ("dtype", Precision), ("ac", Recompute), ("optimizer", Optimizer)],
)
def test_rows_use_whatever_a_spec_can_say(field: str, kind: Any) -> None:
    assert {getattr(spec, field) for spec in SPECS} == set(get_args(kind))


def test_rows_that_continuous_integration_runs_cover_every_strategy() -> None:
    live = {spec.strategy for spec, row in zip(SPECS, ROWS, strict=True) if row.get("live")}
    assert live == set(get_args(Strategy))


def test_figures_add_up() -> None:
    for row in ROWS:
        name, figures = row["spec"]["name"], row["measured"]
        parts = [figures[f"{part}_bytes"] for part in ("param", "grad", "opt", "activation")]
        assert sum(parts) + sum(figures["other_bytes"].values()) == figures["total_peak"], name
        assert figures["total_peak"] == max(figures["phase_peak"].values()), name
        assert figures["phase_peak"][figures["peak_phase"]] == figures["total_peak"], name
        assert figures["total_peak"] <= figures["total_peak_512"], name
        assert 0 < figures["params_local"] <= figures["params_total"], name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sequence": 4096}, "spec has no field sequence"),
        ({"lora": {"r": 8}}, "lora has no field r"),
        ({"strategy": "zero3"}, "strategy is 'zero3', not one of single, ddp"),
        ({"lora": {"targets": "linear"}}, "targets is 'linear', not one of all-linear"),
        ({"dtype": "fsdp_mp"}, "fsdp_mp needs"),
        ({"strategy": "fsdp2_ep", "world": 8, "ep": 3}, "multiple of ep"),
        ({"strategy": "autotp", "world": 2, "tp": 2}, "neither the sequence nor the loss"),
        ({"strategy": "tp", "world": 6, "tp": 4}, "multiple of tp"),
        ({"strategy": "fsdp2", "world": 8, "loss": "chunked"}, "group of its own"),
    ],
)
def test_a_spec_that_does_not_hold_together_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Spec.parse(given)


def test_a_micro_batch_reduces_gradients_always_or_at_the_end() -> None:
    assert Spec(micro_batches=3).syncs == (True, True, True)
    assert Spec(micro_batches=3, gradient_sync="last").syncs == (False, False, True)


def test_a_check_finds_what_differs_and_passes_over_what_may() -> None:
    recorded = {"total_peak": 1024, "wall_s": 1.0, "opt_bytes": 8}
    assert differences(recorded, {"total_peak": 1024, "wall_s": 2.0, "opt_bytes": 8}) == []
    assert differences(recorded, {"total_peak": 1025, "wall_s": 1.0}) == [
        "opt_bytes: 8 -> None",
        "total_peak: 1024 -> 1025",
    ]

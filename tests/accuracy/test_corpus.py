"""The service against ground truth: counts to the digit, memory within the bounds so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.accuracy import megatron_stage_parameters, parameter_counts, peer_megatron_lm
from tests.accuracy.megatron_rows import model_and_layout
from tests.accuracy.outcomes import Memory
from tests.accuracy.parameter_counts import config_of
from tests.accuracy.schemas import all_outcomes
from trainfit.architectures.config import UnsupportedModelTypeError
from trainfit.architectures.registry import parse_config
from trainfit.catalog.configs import bundled_config
from trainfit.estimator.parameters import count_parameters
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Experts

Row = dict[str, Any]

DATA = Path(__file__).parent.parent / "data"
CORPUS = DATA / "corpus"


def rows(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


SUPPORTED_SINCE = ("kimi_k3", "nemotron-nas", "phi3_v")
"""Types of rows without a count that are read by now; tests/catalog holds their checkpoints'."""

COUNTED = (CORPUS / "parameter_counts.jsonl", DATA / "transformers_counts.jsonl")
UNSUPPORTED = [
    pytest.param(row, file.parent, id=row["hf_id"])
    for file in COUNTED
    for row in rows(file)
    if row["status"] == "unsupported" and row["model_type"] not in SUPPORTED_SINCE
]
STAGES = [
    pytest.param(row, id=model_and_layout(row))
    for row in rows(CORPUS / "megatron_stage_parameters.jsonl")
]
PEER = [
    pytest.param(row, id=model_and_layout(row)) for row in rows(CORPUS / "peer_megatron_lm.jsonl")
]
PUBLISHED_MTP: dict[str, dict[str, int]] = json.loads((CORPUS / "mtp.json").read_text("utf-8"))[
    "verified_against_published_totals"
]


@pytest.mark.parametrize("file", COUNTED, ids=lambda file: file.stem)
def test_parameters_are_counted_to_the_digit(file: Path) -> None:
    for row in rows(file):
        if row["status"] != "unsupported":
            figures = parameter_counts.price(row, file.parent)[""]
            assert figures.differences == {}, row["hf_id"]


@pytest.mark.parametrize(("row", "folder"), UNSUPPORTED)
def test_an_unsupported_model_is_refused_by_name(row: Row, folder: Path) -> None:
    config = config_of(row, folder)
    with pytest.raises(UnsupportedModelTypeError, match=config["model_type"]):
        parse_config(config)


@pytest.mark.parametrize("hf_id", PUBLISHED_MTP)
def test_multi_token_prediction_adds_up_to_the_published_total(hf_id: str) -> None:
    """Each checkpoint holds one depth, though Qwen3-Next's config does not declare it.

    Some also hold the router's correction biases and a second embedding and head for the depth;
    neither is counted as a parameter.
    """
    published = PUBLISHED_MTP[hf_id]
    bundled = bundled_config(hf_id)
    assert bundled is not None
    spec = parse_config(bundled.config | {"num_nextn_predict_layers": 1})
    counted = count_parameters(spec)
    assert counted.total == published["main_params"]
    biases = correction_biases(spec) if "router_bias_buffers" in published else 0
    copies = 2 * spec.embedding.rows * spec.hidden_size if "Qwen3-Next" not in hf_id else 0
    total = published.get("published_bf16_total") or published["published_total"]
    assert counted.total + counted.mtp + biases + copies == total


def correction_biases(spec: ModelSpec) -> int:
    """One value per expert of every mixture, that of the last layer twice: it is MTP's kind."""
    return sum(
        block.experts
        for kind in (*spec.pattern, spec.pattern[-1])
        for sublayer in spec.layer_kinds[kind].sublayers
        for block in sublayer.blocks
        if isinstance(block, Experts)
    )


@pytest.mark.parametrize("row", STAGES)
def test_every_rank_and_chunk_has_its_parameters_to_the_digit(row: Row) -> None:
    figures = megatron_stage_parameters.price(row, CORPUS)[""]
    assert figures.differences == {}


@pytest.mark.parametrize("row", PEER)
def test_megatrons_own_estimator_agrees_where_it_is_right(row: Row) -> None:
    figures = peer_megatron_lm.price(row, CORPUS)[""]
    assert figures.differences == {}


def test_max_allocated_on_b200_is_within_five_percent() -> None:
    outcomes = [o for o in all_outcomes(CORPUS / "measured.jsonl") if o.group == "simumax-b200"]
    errors = {o.id: o.figures.error_ratio for o in outcomes if isinstance(o.figures, Memory)}
    assert len(errors) == 10
    assert {name: error for name, error in errors.items() if abs(error) > 0.05} == {}
    assert {o.reason for o in outcomes if not o.priced} == {"the same measurement as another row"}


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.jsonl")), ids=lambda file: file.stem)
def test_every_row_is_priced_or_skipped_with_a_reason(file: Path) -> None:
    outcomes = all_outcomes(file)
    assert len(outcomes) >= len(rows(file))
    assert [outcome for outcome in outcomes if outcome.failed] == []
    assert all(outcome.priced != bool(outcome.reason) for outcome in outcomes)
    assert {outcome.group for outcome in outcomes}.isdisjoint({"unknown"})

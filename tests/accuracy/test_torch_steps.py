"""How close estimates of steps of PyTorch modules are to every tensor that such a step makes."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.accuracy.outcomes import GIB, UnusableRowError
from tests.accuracy.test_corpus import CORPUS
from tests.accuracy.torch_steps import job_of, price, stage_of, tensors_of
from trainfit.questions.estimate import answer
from trainfit.resolve.findings import RefusedError

Row = dict[str, Any]

DATA = Path(__file__).parents[1] / "data"
FILES = [CORPUS / "torch_steps.jsonl", DATA / "torch_steps_here.jsonl"]
"""Files of rows, each held to the same bounds."""


def usable(file: Path) -> list[Row]:
    """Rows that are truth and that a job can say."""
    found = []
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        try:
            price(row, file.parent)
        except (UnusableRowError, RefusedError):
            continue
        found.append(row)
    return found


@pytest.fixture(scope="module", params=FILES, ids=lambda file: file.stem)
def steps(request: pytest.FixtureRequest) -> list[Row]:
    return usable(request.param)


def test_peaks(steps: list[Row]) -> None:
    errors = sorted(abs(price(row, CORPUS)[""].error_ratio) for row in steps)
    assert len(errors) >= 60
    assert median(errors) <= 0.003
    assert errors[int(0.95 * len(errors))] <= 0.01
    assert errors[-1] <= 0.03


def test_moments_of_the_peaks(steps: list[Row]) -> None:
    right = [phase_of(row) == row["measured"]["peak_phase"] for row in steps]
    assert sum(right) >= 0.95 * len(right)


def phase_of(row: Row) -> str:
    """forward, backward or optimizer."""
    stage = stage_of(row)
    moment = stage.peak.moment
    if moment == "optimizer_step":
        return "optimizer"
    return "forward" if moment.endswith("_forward") else "backward"


def test_the_loss_is_the_peak_where_it_is_measured_so(steps: list[Row]) -> None:
    at_loss = [
        row for row in steps if row["measured"]["peak_op"] == "_log_softmax_backward_data.default"
    ]
    assert at_loss
    for row in at_loss:
        if row["spec"].get("loss", "hf") == "hf":
            stage = stage_of(row)
            assert stage.peak.operation == "loss", row["spec"]["name"]


def test_states_are_exact(steps: list[Row]) -> None:
    """Weights and optimizer states on the rank that was measured, to a megabyte and a thousandth
    of the weights: Adafactor's vectors are less.
    """
    for row in steps:
        stage = stage_of(row)
        sizes = {part.name: part.bytes for part in stage.components}
        measured = row["measured"]
        stray = 1e6 + 1e-3 * measured["param_bytes"]
        assert sizes["weights"] == pytest.approx(measured["param_bytes"], abs=stray)
        assert sizes["optimizer_states"] == pytest.approx(measured["opt_bytes"], abs=stray)


def test_workspaces_are_left_out() -> None:
    """What is compared is what tensors take: less than what is allocated."""
    (stage,) = answer(job_of({"model_type": "llama", "config": SMALL})).stages
    assert stage.allocated_bytes.expected - tensors_of(stage).expected < 0.1 * GIB


SMALL = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2}

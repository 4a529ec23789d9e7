"""Verdicts on runs that took place: on cards a little smaller and larger than what they took."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.accuracy import measured
from tests.accuracy.outcomes import GIB, Fit, UnusableRowError
from tests.accuracy.schemas import all_outcomes
from tests.accuracy.test_corpus import CORPUS, rows
from trainfit.decisions.verdict import Verdict, verdict
from trainfit.estimator.results import Estimate
from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job

Row = dict[str, Any]


def runs() -> dict[str, tuple[Row, Job]]:
    """Complete runs that can be priced."""
    found = {}
    for row in rows(CORPUS / "measured.jsonl"):
        if not row["complete"]:
            continue
        try:
            measured.check_trusted(row)
            job = measured.job_of(row)
            plan_of(job)
        except (UnusableRowError, RefusedError):
            continue
        found[row["id"]] = row["measured"], job
    return found


RUNS = runs()


@cache
def priced(name: str) -> list[tuple[float, Estimate]]:
    """What each measured stage of a run took, in bytes, and the estimate of that stage alone."""
    figures, job = RUNS[name]
    return list(peaks(figures, measured.answered(job)))


def peaks(figures: Row, estimate: Estimate) -> list[tuple[float, Estimate]]:
    """Reserved where a row says so, else allocated."""
    if per_stage := figures.get("per_stage"):
        taken = {
            int(name.removeprefix("stage")): each.get("max_reserved_gib", each["max_allocated_gib"])
            for name, each in per_stage.items()
        }
    elif "LAST rank" in figures["what"]:
        taken = {len(estimate.stages) - 1: figures["value_gib"]}
    elif "rank 0" in figures["what"]:
        taken = {0: figures["value_gib"]}
    else:
        return [(figures["value_gib"] * GIB, estimate)]
    return [
        (gib * GIB, replace(estimate, stages=[estimate.stages[rank]]))
        for rank, gib in taken.items()
    ]


def verdicts(name: str, ratio: float, more_gib: float) -> list[Verdict]:
    """On a card of so many times the measured peak, and so much more."""
    return [
        verdict(estimate, round(ratio * peak + more_gib * GIB)) for peak, estimate in priced(name)
    ]


@pytest.mark.parametrize("name", RUNS)
def test_what_a_run_took_does_not_fit_in_less(name: str) -> None:
    assert "fits" not in verdicts(name, 0.97, 0)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_fits_with_room_for_contexts_and_communicators(name: str) -> None:
    assert set(verdicts(name, 1.25, 12)) == {"fits"}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_took_place_is_not_turned_away(name: str) -> None:
    assert "does_not_fit" not in verdicts(name, 1.1, 4)


HELD = {"megatron": 69, "torchtitan": 9, "torchtune": 5}


@pytest.mark.parametrize("framework", HELD)
def test_every_complete_run_is_held(framework: str) -> None:
    complete = {
        row["id"]
        for row in rows(CORPUS / "measured.jsonl")
        if row["complete"] and framework in row["framework"].casefold()
    }
    assert len(complete) == HELD[framework]
    assert complete <= RUNS.keys()


def test_what_is_known_to_run_is_not_turned_away() -> None:
    """A preset that is shipped is no run: of Llama-3.1-405B three that nobody has published do not
    fit, one of them with its layout described as another (Megatron-Bridge's llama31.py).
    """
    shipped = {
        row["id"]
        for row in rows(CORPUS / "runs.jsonl")
        if row["confidence"] == "shipped preset (not itself a measurement)"
    }
    fits = {
        outcome.id: outcome.figures
        for outcome in all_outcomes(CORPUS / "runs.jsonl")
        if isinstance(outcome.figures, Fit)
    }
    turned_away = {name for name, fit in fits.items() if fit.contradicts}
    assert len(fits.keys() - shipped) >= 190
    assert turned_away <= shipped
    assert len(turned_away) <= 3

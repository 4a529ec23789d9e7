"""Nothing that goes wrong within the service keeps an object out of a cluster."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from httpx import AsyncClient
from prometheus_client import CollectorRegistry

from tests.api.kubernetes.objects import DOES_NOT_FIT, FITS, JOB, UID, annotated, review
from trainfit.api.kubernetes import reviewing


async def test_an_internal_error_passes_with_a_warning_that_says_where_to_look(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(reviewing, "check_fit", fails)
    headers = {"x-request-id": "one"}
    body = review(annotated(JOB, FITS))
    response = await client.post("/v1/admission/enforce", json=body, headers=headers)
    assert response.status_code == 200
    said = response.json()["response"]
    assert (said["uid"], said["allowed"]) == (UID, True)
    assert said["warnings"] == [
        "trainfit: not checked: an internal error, in the service's log as request one"
    ]


async def test_a_verdict_does_not_wait_for_suggestions(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviewing, "SUGGESTING_SECONDS", 0)
    body = review(annotated(JOB, DOES_NOT_FIT))
    said = (await client.post("/v1/admission/enforce", json=body)).json()["response"]
    assert not said["allowed"]
    assert said["status"]["message"].startswith("does not fit on L40S: ")
    assert "would help" not in said["status"]["message"]


async def test_reviews_are_counted(app: FastAPI, client: AsyncClient) -> None:
    for path, job in (
        ("/v1/admission", DOES_NOT_FIT),
        ("/v1/admission/enforce", DOES_NOT_FIT),
        ("/v1/admission", FITS),
        ("/v1/admission", "gpu: ["),
        ("/v1/admission", None),
    ):
        await client.post(path, json=review(annotated(JOB, job)))
    registry: CollectorRegistry = app.state.metrics.registry

    def counted(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    reviews = "trainfit_admission_reviews_total"
    assert counted(reviews, outcome="does_not_fit", allowed="true") == 1
    assert counted(reviews, outcome="does_not_fit", allowed="false") == 1
    assert counted(reviews, outcome="fits", allowed="true") == 1
    assert counted(reviews, outcome="not_checked", allowed="true") == 1
    assert counted(reviews, outcome="no_job", allowed="true") == 1
    assert counted("trainfit_fit_checks_total", verdict="does_not_fit") == 2

"""Every error is a problem: RFC 9457, with a page for its type and nothing of the input in it."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

from trainfit.api import replies
from trainfit.api.examples import DEEPSEEK_V3
from trainfit.api.kinds import KINDS
from trainfit.api.logs import configure_logs
from trainfit.questions.problems import problem_of
from trainfit.specs.job import Job

CANARY = "hunter2"


@pytest.mark.parametrize(
    ("method", "path", "status", "slug"),
    [
        ("GET", "/nowhere", 404, "not-found"),
        ("POST", "/v1/estimate/", 404, "not-found"),
        ("GET", "/docs/assets/nothing.js", 404, "not-found"),
        ("GET", "/docs/assets/../app.py", 404, "not-found"),
        ("GET", "/docs/assets/%2e%2e/app.py", 404, "not-found"),
        ("GET", "/problems/nothing", 404, "not-found"),
        ("GET", "/v1/estimate", 405, "method-not-allowed"),
        ("DELETE", "/v1/gpus", 405, "method-not-allowed"),
        ("POST", "/livez", 405, "method-not-allowed"),
    ],
)
async def test_errors_of_routing_are_problems(
    client: AsyncClient, method: str, path: str, status: int, slug: str
) -> None:
    response = await client.request(method, path)
    problem = response.json()
    assert response.status_code == problem["status"] == status
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["type"] == f"/problems/{slug}"
    assert problem["instance"] == f"urn:request:{response.headers['x-request-id']}"
    assert ("allow" in response.headers) == (status == 405)


@pytest.mark.usefixtures("logs_restored")
async def test_a_fault_of_the_service_says_nothing_of_its_cause(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(replies, "answer", fail)
    configure_logs("error")
    response = await client.post("/v1/estimate", json=DEEPSEEK_V3)
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == "/problems/internal-error"
    assert CANARY not in response.text
    logged = capsys.readouterr().err
    assert CANARY in logged
    assert response.headers["x-request-id"] in logged


@pytest.mark.parametrize("slug", KINDS)
async def test_every_type_of_problem_has_a_page(client: AsyncClient, slug: str) -> None:
    response = await client.get(f"/problems/{slug}")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text.startswith(KINDS[slug].title)
    assert KINDS[slug].meaning in response.text


def test_an_error_that_is_not_about_the_job_is_raised_again() -> None:
    with pytest.raises(ZeroDivisionError):
        problem_of(ZeroDivisionError(), Job.model_validate(DEEPSEEK_V3))


def with_canary(value: Any) -> Any:
    """The same structure with every value replaced by the canary."""
    if isinstance(value, dict):
        return {key: with_canary(inner) for key, inner in value.items()}
    return CANARY


@pytest.mark.parametrize(
    "body",
    [
        with_canary(DEEPSEEK_V3),
        {"model": {"hf_id": CANARY}},
        {"model": {"hf_id": "gpt2"}, "gpu": CANARY},
        {"model": {"hf_id": "gpt2"}, "gpu": {"name": CANARY}},
        {"model": {"hf_id": "gpt2"}, "parallelism": {"pipeline_model_parallel_layout": CANARY}},
        {"model": {"hf_id": "gpt2"}, "framework": {"name": CANARY}},
        {"model": {"hf_id": "gpt2"}, "unknown": {"token": CANARY}},
        {"model": {"hf_config": {"model_type": "llama", "hidden_size": CANARY}}},
        {"model": {"hf_config": {"model_type": CANARY.encode().hex(), "token": CANARY}}},
        {"model": {"spec": {"name": CANARY, "hidden_size": CANARY}}},
        [CANARY],
        CANARY,
    ],
)
async def test_nothing_of_the_input_is_echoed(client: AsyncClient, body: Any) -> None:
    response = await client.post("/v1/estimate", json=body)
    assert response.status_code == 422
    assert CANARY not in response.text


def test_kinds_are_told_apart_by_their_slugs() -> None:
    assert all(slug == kind.slug for slug, kind in KINDS.items())
    assert all(400 <= kind.status < 600 for kind in KINDS.values())

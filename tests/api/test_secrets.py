"""A secret that a caller sends, wherever, is in no error, no header, no metric and no log. The
answer to a job has the job, and nothing else of the request.
"""

from __future__ import annotations

import json
import re

import httpx
import pytest

from tests.serving import Service, running_service
from trainfit.api.api_keys import named, new_key
from trainfit.api.examples import BATCH_EXAMPLES, COMPARE_EXAMPLES, LLAMA_8B

SECRET = "hunter2hunter2"
KEY = new_key()

JOBS = {
    "whole": LLAMA_8B,
    "model": {**LLAMA_8B, "model": {"hf_id": SECRET}},
    "revision": {**LLAMA_8B, "model": {"hf_id": "gpt2", "revision": SECRET}},
    "config": {**LLAMA_8B, "model": {"hf_config": {"model_type": "llama", "token": SECRET}}},
    "card": {**LLAMA_8B, "gpu": SECRET},
    "value": {**LLAMA_8B, "parallelism": {"tp": SECRET}},
    "field": {**LLAMA_8B, "token": SECRET},
    "pin": {**LLAMA_8B, "estimator_version": SECRET},
}
BODIES = [
    *(("/v1/estimate", job) for job in JOBS.values()),
    *(("/v1/fit-check", job) for job in JOBS.values()),
    *(
        ("/v1/estimate:batch", {"jobs": [{"id": name, "job": job}]})
        for name, job in JOBS.items()
    ),
    *(
        ("/v1/compare", {"job": job, "changes": [{"id": "x", "patch": []}]})
        for job in JOBS.values()
    ),
    ("/v1/compare", COMPARE_EXAMPLES["changes"]["value"]),
    ("/v1/estimate:batch", BATCH_EXAMPLES["two"]["value"]),
]  # fmt: skip
HEADERS = (
    "cookie",
    "origin",
    "referer",
    "traceparent",
    "user-agent",
    "x-forwarded-for",
)


def answers(service: Service) -> str:
    """Metrics, and headers and errors of answers to whatever can carry a secret."""
    told, statuses = [], set()
    with httpx.Client(base_url=service.url) as client:

        def ask(method: str, path: str, **request: object) -> None:
            headers = dict.fromkeys(HEADERS, f"{SECRET} {KEY}")
            headers |= {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
            headers["x-hf-token"] = SECRET
            headers |= request.pop("headers", {})  # type: ignore[call-overload]
            answer = client.request(method, path, headers=headers, **request)  # type: ignore[arg-type]
            assert answer.status_code != 500
            statuses.add(answer.status_code)
            told.append(str(answer.headers))
            told.append(answer.text if answer.is_error else str(answer.json().get("stages")))

        for path, body in BODIES:
            ask("POST", path, json=body)
            ask("POST", f"{path}?token={SECRET}&{SECRET}=1", json=body)
            ask("POST", path, content=json.dumps(body)[:-1] + SECRET)
        for path in (
            f"/{SECRET}",
            f"/v1/{SECRET}",
            f"/problems/{SECRET}",
            f"/docs/assets/{SECRET}",
        ):
            ask("GET", path)
            ask("POST", f"{path}?{SECRET}", content=SECRET)
        ask("POST", "/v1/estimate", content=SECRET, headers={"content-type": SECRET})
        ask("GET", "/v1/gpus", headers={"authorization": f"Bearer {new_key()} {SECRET}"})
        ask("GET", "/v1/gpus", headers={"authorization": SECRET})
        ask("GET", f"/v1/models?{SECRET}", headers={"x-request-id": f"{SECRET}/{KEY}"})
        ask(SECRET.upper(), "/v1/gpus")
        ask("GET", "/v1/gpus", headers={"x-hf-token": f"{SECRET} {SECRET}"})
        told.append(client.get("/metrics").text)
    assert statuses >= {200, 400, 401, 404, 405, 409, 415, 422}
    return "\n".join(told)


@pytest.fixture(scope="module")
def told() -> tuple[str, str]:
    """All that was answered, and all that was logged."""
    keys = str(named("ci", KEY))
    with running_service(TRAINFIT_API_KEYS=keys, TRAINFIT_LOG_LEVEL="debug") as service:
        answered = answers(service)
        service.process.terminate()
        _, log = service.process.communicate(timeout=30)
    return answered, log


def test_no_error_no_header_and_no_metric_repeats_it(told: tuple[str, str]) -> None:
    answered, _ = told
    assert "trainfit_http_requests_total" in answered
    assert SECRET not in answered.lower()
    assert KEY not in answered


def test_no_log_repeats_it(told: tuple[str, str]) -> None:
    _, log = told
    entries = [json.loads(line) for line in log.splitlines()]
    requests = [entry for entry in entries if entry["event"] == "request"]
    assert len(requests) >= 2 * len(BODIES)
    assert all(entry["caller"] == "ci" for entry in requests[: len(BODIES)])
    assert SECRET not in log.lower()
    assert KEY not in log
    assert not re.search("bearer", log, re.IGNORECASE)

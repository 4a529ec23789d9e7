"""/metrics: what is counted, and that no caller can add a series."""

from __future__ import annotations

import pytest
from httpx import AsyncClient
from prometheus_client.parser import text_string_to_metric_families

import trainfit
from trainfit.api.examples import DEEPSEEK_V3, LLAMA_8B
from trainfit.api.metrics import PEAK_BYTES


async def samples(client: AsyncClient) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


async def value(client: AsyncClient, name: str, **labels: str) -> float | None:
    return (await samples(client)).get((name, frozenset(labels.items())))


async def test_requests_are_counted_by_operation(client: AsyncClient) -> None:
    for _ in range(2):
        await client.post("/v1/estimate", json=LLAMA_8B)
    await client.post("/v1/estimate", json={})
    await client.get("/v1/estimate")
    await client.get("/v1/gpus")
    total = "trainfit_http_requests_total"
    assert await value(client, total, operation="estimate", method="POST", status="200") == 2
    assert await value(client, total, operation="estimate", method="POST", status="422") == 1
    assert await value(client, total, operation="estimate", method="GET", status="405") == 1
    assert await value(client, total, operation="listGpus", method="GET", status="200") == 1
    seconds = "trainfit_http_request_duration_seconds_count"
    assert await value(client, seconds, operation="estimate") == 4


async def test_estimates_are_counted_by_outcome(client: AsyncClient) -> None:
    await client.post("/v1/estimate", json=DEEPSEEK_V3)
    await client.post("/v1/estimate?activations=false", json=DEEPSEEK_V3)
    await client.post("/v1/estimate", json={**LLAMA_8B, "gpu": "none"})
    await client.post("/v1/estimate", json={**LLAMA_8B, "framework": {"name": "torchtitan"}})
    await client.post("/v1/estimate", json={})
    total = "trainfit_estimates_total"
    assert await value(client, total, outcome="answered", framework="megatron") == 2
    assert await value(client, total, outcome="unknown-gpu", framework="megatron") == 1
    assert await value(client, total, outcome="not-modelled", framework="torchtitan") == 1


async def test_verdicts_are_counted(client: AsyncClient) -> None:
    await client.post("/v1/fit-check", json=LLAMA_8B)
    await client.post("/v1/fit-check", json={**LLAMA_8B, "training": {"precision": "bf16-pure"}})
    await client.post("/v1/fit-check", json={**LLAMA_8B, "gpu": "none"})
    verdicts, jobs = "trainfit_fit_checks_total", "trainfit_estimates_total"
    assert await value(client, verdicts, verdict="fits") == 1
    assert await value(client, verdicts, verdict="unknown") == 1
    assert await value(client, jobs, outcome="answered", framework="megatron") == 1
    assert await value(client, jobs, outcome="not-modelled", framework="megatron") == 1
    assert await value(client, jobs, outcome="unknown-gpu", framework="megatron") == 1


async def test_jobs_of_a_batch_are_counted_one_by_one(client: AsyncClient) -> None:
    jobs = [{"id": str(number), "job": LLAMA_8B} for number in range(3)]
    for path in ("/v1/estimate:batch", "/v1/compare"):
        await client.post(path, json={"jobs": jobs})
    total = "trainfit_estimates_total"
    assert await value(client, total, outcome="answered", framework="megatron") == 6


async def test_the_peak_is_observed_where_there_is_one(client: AsyncClient) -> None:
    response = await client.post("/v1/estimate", json=DEEPSEEK_V3)
    await client.post("/v1/estimate?activations=false", json=DEEPSEEK_V3)
    expected = response.json()["binding"]["device_bytes"]["expected"]
    assert await value(client, "trainfit_estimated_peak_bytes_sum") == expected
    assert await value(client, "trainfit_estimated_peak_bytes_count") == 1
    assert PEAK_BYTES[7] == 64 * 2**30


async def test_paths_outside_the_api_are_not_counted(client: AsyncClient) -> None:
    for path in ("/livez", "/readyz", "/metrics", "/docs", "/openapi.json", "/problems/not-found"):
        await client.get(path)
    assert not any("trainfit_http" in name for name, _ in await samples(client))


async def test_callers_cannot_add_series(client: AsyncClient) -> None:
    for number in range(5):
        await client.request(f"METHOD{number}", f"/path{number}")
        await client.request(f"METHOD{number}", "/v1/gpus")
    counted = {labels for name, labels in await samples(client) if name.endswith("requests_total")}
    assert {dict(labels)["operation"] for labels in counted} == {"unmatched", "listGpus"}
    assert {dict(labels)["method"] for labels in counted} == {"other"}
    assert len(counted) == 2


async def test_the_build_is_named(client: AsyncClient) -> None:
    assert await value(client, "trainfit_build_info", version=trainfit.__version__) == 1


@pytest.mark.parametrize("name", ["process_resident_memory_bytes", "process_cpu_seconds_total"])
async def test_the_process_is_watched(client: AsyncClient, name: str) -> None:
    assert (await value(client, name) or 0) > 0

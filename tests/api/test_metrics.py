"""/metrics: what is counted, and that no caller can add a series."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import get_args

import pytest
from httpx import ASGITransport, AsyncClient
from prometheus_client.parser import text_string_to_metric_families

import trainfit
from tests.programs import needed
from trainfit.api.app import create_app
from trainfit.api.examples import DEEPSEEK_V3, LLAMA_8B, RECONCILE_EXAMPLES
from trainfit.api.kinds import KINDS
from trainfit.api.metrics import METHODS, PEAK_BYTES
from trainfit.api.settings import ServiceSettings
from trainfit.decisions.verdict import Verdict
from trainfit.questions.digest import catalogue_version
from trainfit.specs.framework import FrameworkName


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


async def test_figures_of_runs_are_counted_by_how_far_they_are_off(client: AsyncClient) -> None:
    response = await client.post("/v1/reconcile", json=RECONCILE_EXAMPLES["megatron"]["value"])
    told = {each["quantity"]: each for each in response.json()["comparisons"]}
    labels = {"framework": "megatron", "family": "llama"}
    for quantity, each in told.items():
        name = "trainfit_residual_ratio"
        assert await value(client, f"{name}_count", quantity=quantity, **labels) == 1
        ratio = each["residual_bytes"] / each["predicted"]["expected"]
        below = await value(client, f"{name}_bucket", quantity=quantity, le="0.2", **labels)
        assert below == (ratio <= 0.2)


async def test_paths_outside_the_api_are_not_counted(client: AsyncClient) -> None:
    for path in ("/livez", "/readyz", "/metrics", "/docs", "/openapi.json", "/problems/not-found"):
        await client.get(path)
    assert not any("trainfit_http_request_" in name for name, _ in await samples(client))
    assert not any("trainfit_http_requests_total" in name for name, _ in await samples(client))


async def hostile_requests(client: AsyncClient, words: Iterator[str]) -> None:
    """A round of requests in which whatever a caller can write is another word each time."""
    for path in ("/{}", "/v1/{}", "/v1/estimate/{}", "/problems/{}", "/docs/assets/{}", "/%0a{}"):
        await client.get(path.format(next(words)))
        await client.request(next(words).upper(), path.format(next(words)))
    for path in ("/v1/estimate", "/v1/fit-check", "/v1/compare", "/v1/estimate:batch"):
        await client.request(next(words).upper(), path)
        headers = {name: next(words) for name in ("x-request-id", "user-agent", "authorization")}
        await client.post(path, content=next(words), headers=headers)
        await client.post(path, json={next(words): next(words)}, headers=headers)
        await client.post(f"{path}?{next(words)}={next(words)}", json=LLAMA_8B)
        await client.post(path, json={**LLAMA_8B, "model": {"hf_id": next(words)}})
        await client.post(path, json={**LLAMA_8B, "gpu": next(words)})
        await client.post(path, json={**LLAMA_8B, "framework": {"name": next(words)}})
        config = {"model_type": next(words)}
        await client.post(path, json={**LLAMA_8B, "model": {"hf_config": config}})
        jobs = [{"id": next(words), "job": {**LLAMA_8B, "gpu": next(words)}}]
        await client.post(path, json={"jobs": jobs})


async def test_callers_cannot_add_series(client: AsyncClient) -> None:
    words = (f"word{number}" for number in count())
    await hostile_requests(client, words)
    seen = (await samples(client)).keys()
    for _ in range(3):
        await hostile_requests(client, words)
    assert (await samples(client)).keys() == seen
    assert "word" not in (await client.get("/metrics")).text
    assert await value(
        client, "trainfit_http_requests_total", operation="unmatched", method="other", status="404"
    )


async def test_no_label_takes_a_value_outside_its_set(client: AsyncClient) -> None:
    await hostile_requests(client, (f"word{number}" for number in count()))
    operations = {"estimate", "estimateBatch", "fitCheck", "compare", "unmatched"}
    closed = {
        "operation": operations,
        "method": METHODS | {"other"},
        "outcome": KINDS.keys() | {"answered"},
        "framework": set(get_args(FrameworkName)),
        "verdict": set(get_args(Verdict)),
    }
    for name, labels in await samples(client):
        for label, text in labels:
            if name.startswith("trainfit_") and label in closed:
                assert text in closed[label]


async def test_requests_under_way_are_gauged() -> None:
    app = create_app(ServiceSettings())
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow_body() -> AsyncIterator[bytes]:
        begun.set()
        await go_on.wait()
        yield b"{}"

    gauge = "trainfit_http_requests_in_flight"
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        assert await value(client, gauge) == 0
        headers = {"content-type": "application/json"}
        request = client.post("/v1/estimate", content=slow_body(), headers=headers)
        pending = asyncio.create_task(request)
        await begun.wait()
        assert await value(client, gauge) == 1
        go_on.set()
        await pending
        assert await value(client, gauge) == 0


async def test_promtool_finds_nothing_to_say_against_names_and_units(client: AsyncClient) -> None:
    promtool = needed("promtool", package="prometheus")
    await hostile_requests(client, (f"word{number}" for number in count()))
    text = (await client.get("/metrics")).content
    check = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True)
    assert (check.returncode, check.stdout, check.stderr) == (0, b"", b"")


async def test_the_build_is_named(client: AsyncClient) -> None:
    versions = {"version": trainfit.__version__, "catalogue_version": catalogue_version()}
    assert await value(client, "trainfit_build_info", **versions) == 1


@pytest.mark.parametrize("name", ["process_resident_memory_bytes", "process_cpu_seconds_total"])
async def test_the_process_is_watched(client: AsyncClient, name: str) -> None:
    assert (await value(client, name) or 0) > 0

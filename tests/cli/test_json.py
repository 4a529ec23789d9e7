"""`--json` prints what HTTP answers, byte for byte."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient, Response

from tests.cli.conftest import Run
from trainfit.api.app import create_app
from trainfit.api.settings import ServiceSettings

JOBS: list[tuple[str, dict[str, Any], str]] = [
    (
        "deepseek-ai/DeepSeek-V3 --tp 4 --pp 4 --ep 8 --num-gpus 128"
        " --num-layers-in-last-pipeline-stage 16 --gpu H100-80GB",
        {
            "model": {"hf_id": "deepseek-ai/DeepSeek-V3"},
            "parallelism": {
                "num_gpus": 128,
                "tp": 4,
                "pp": 4,
                "ep": 8,
                "num_layers_in_last_pipeline_stage": 16,
            },
            "gpu": "H100-80GB",
        },
        "",
    ),
    (
        "Qwen/Qwen2-VL-7B-Instruct --num-gpus 24 --no-activations",
        {"model": {"hf_id": "Qwen/Qwen2-VL-7B-Instruct"}, "parallelism": {"num_gpus": 24}},
        "?activations=false",
    ),
]


def http(method: str, path: str, body: object = None) -> Response:
    async def ask() -> Response:
        transport = ASGITransport(create_app(ServiceSettings()))
        async with AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.request(method, path, json=body)

    return asyncio.run(ask())


@pytest.mark.parametrize(("line", "job", "query"), JOBS)
def test_an_estimate(run: Run, line: str, job: dict[str, Any], query: str) -> None:
    printed = run(f"estimate {line} --json").out
    assert printed.encode() == http("POST", f"/v1/estimate{query}", job).content


@pytest.mark.parametrize("catalogue", ["models", "gpus"])
def test_a_catalogue(run: Run, catalogue: str) -> None:
    printed = run(f"{catalogue} --json").out
    assert printed.encode() == http("GET", f"/v1/{catalogue}").content


def test_a_problem_but_for_the_request_that_it_names(run: Run) -> None:
    printed = run("estimate gpt2 --tp 5 --json").err
    job = {"model": {"hf_id": "gpt2"}, "parallelism": {"tp": 5}}
    problem = http("POST", "/v1/estimate", job).text
    instance = problem.partition('"instance":')[2].partition(",")[0]
    assert printed.rstrip("\n") == problem.replace(instance, "null", 1)

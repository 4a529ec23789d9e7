"""POST /v1/trace and /v1/trace:snapshot."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from httpx import AsyncClient

from trainfit.api.examples import TRACE_EXAMPLES


@pytest.mark.parametrize("name", TRACE_EXAMPLES)
async def test_the_examples_are_answered(client: AsyncClient, name: str) -> None:
    question: Any = TRACE_EXAMPLES[name]["value"]
    answer = await client.post("/v1/trace", json=question)
    assert answer.status_code == 200, answer.text
    peak = answer.json()["peak"]
    assert peak["reserved_bytes"] >= peak["allocated_bytes"] > 0
    snapshot = await client.post("/v1/trace:snapshot", json=question)
    assert snapshot.headers["content-type"] == "application/octet-stream"
    document = pickle.loads(snapshot.content)
    reserved = sum(each["total_size"] for each in document["segments"])
    assert reserved == answer.json()["moments"][-1]["reserved_bytes"]


async def test_a_job_whose_order_is_not_known_is_refused(client: AsyncClient) -> None:
    lora: Any = TRACE_EXAMPLES["lora-8b"]["value"]
    job = {**lora, "framework": {"name": "transformers", "compile": True}}
    for path in ("/v1/trace", "/v1/trace:snapshot"):
        answer = await client.post(path, json=job)
        assert answer.status_code == 422
        (error,) = answer.json()["errors"]
        assert error["code"] == "not_traced"

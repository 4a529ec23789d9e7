"""/v1/models and /v1/gpus."""

from __future__ import annotations

import pytest
from httpx import AsyncClient

from trainfit.api.examples import LLAMA_8B
from trainfit.catalog.configs import bundled_ids
from trainfit.catalog.gpus import gpus


async def test_every_bundled_model_is_listed(client: AsyncClient) -> None:
    response = await client.get("/v1/models")
    assert response.status_code == 200
    models = response.json()["models"]
    assert [model["hf_id"] for model in models] == list(bundled_ids())
    listed = {model["hf_id"]: model for model in models}
    assert listed["deepseek-ai/DeepSeek-R1"] == {
        "hf_id": "deepseek-ai/DeepSeek-R1",
        "model_type": "deepseek_v3",
        "config_of": "deepseek-ai/DeepSeek-V3",
        "provenance": listed["deepseek-ai/DeepSeek-V3"]["provenance"],
        "note": listed["deepseek-ai/DeepSeek-V3"]["note"],
    }


async def test_every_card_is_listed_with_its_memory(client: AsyncClient) -> None:
    cards = (await client.get("/v1/gpus")).json()["gpus"]
    assert [card["name"] for card in cards] == [gpu.name for gpu in gpus()]
    assert all(card["reported_bytes"] > 2**30 for card in cards)
    listed = {card["name"]: card for card in cards}
    assert listed["L4"]["mig"] is None
    assert listed["A30"]["mig"]["profiles"][0] == {
        "name": "1g.6gb",
        "instances": 4,
        "memory_eighths": 2,
        "reported_bytes": 5952 * 2**20,
    }


async def test_every_listed_model_and_card_can_be_asked_for(client: AsyncClient) -> None:
    models = (await client.get("/v1/models")).json()["models"]
    cards = (await client.get("/v1/gpus")).json()["gpus"]
    for hf_id, gpu in [(models[0]["hf_id"], cards[0]["name"]), ("gpt2", cards[-1]["aliases"][0])]:
        job = {"model": {"hf_id": hf_id}, "gpu": gpu}
        assert (await client.post("/v1/estimate", json=job)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "gpus"), ("GET", "models"), ("POST", "fit-check")]
)
async def test_a_query_that_would_be_ignored_is_refused(
    client: AsyncClient, method: str, path: str
) -> None:
    body = LLAMA_8B if method == "POST" else None
    refused = await client.request(method, f"/v1/{path}?activations=false", json=body)
    assert refused.status_code == 422
    assert refused.json()["type"] == "/problems/invalid-parameter"
    assert refused.json()["detail"] == "the operation takes no query parameters"
    assert (await client.request(method, f"/v1/{path}?", json=body)).status_code == 200

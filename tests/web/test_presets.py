"""What the page offers first: well-known runs, each with its source, and models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from httpx import AsyncClient

from trainfit.catalog.configs import bundled_ids
from trainfit.catalog.gpus import find_gpu
from trainfit.web.page import STATIC

POPULAR: dict[str, int] = json.loads((STATIC / "ask" / "popular.json").read_text("utf-8"))
PRESETS: list[dict[str, Any]] = json.loads((STATIC / "ask" / "presets.json").read_text("utf-8"))


def test_a_dozen_runs_have_names_of_their_own() -> None:
    assert len(PRESETS) >= 12
    assert len({preset["name"] for preset in PRESETS}) == len(PRESETS)
    assert all(preset["source"] for preset in PRESETS)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda each: each["name"])
async def test_a_preset_is_answered_without_a_network(
    client: AsyncClient, preset: dict[str, Any]
) -> None:
    job = preset["job"]
    assert job["model"]["hf_id"] in bundled_ids()
    assert find_gpu(job["gpu"]).name == job["gpu"]
    response = await client.post("/v1/fit-check", json={**job, "suggest": False})
    assert response.status_code == 200, response.text
    assert response.json()["verdict"] in {"fits", "tight", "does_not_fit"}


@pytest.mark.parametrize("name", POPULAR)
async def test_a_model_that_is_offered_first_has_the_size_that_is_told(
    client: AsyncClient, name: str
) -> None:
    assert name in bundled_ids()
    response = await client.post("/v1/models:resolve", json={"model": {"hf_id": name}})
    assert response.json()["architecture"]["parameters"]["total"] == POPULAR[name]

"""POST /v1/search."""

from __future__ import annotations

import json
from typing import Any

import pytest
from httpx import AsyncClient

from trainfit.api.routes import search

ASKED: dict[str, Any] = {
    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
    "parallelism": {"tp": 2, "pp": 1, "cp": 1},
    "training": {"global_batch_size": 64, "seq_length": 4096, "micro_batch_size": 1},
    "gpu": "H100-80GB",
    "max_gpus": 8,
}


async def test_progress_is_told_before_the_answer_and_the_answer_is_the_same(
    client: AsyncClient,
) -> None:
    plain = await client.post("/v1/search", json=ASKED)
    assert plain.status_code == 200, plain.text
    assert plain.headers["etag"] == f'"{plain.json()["request_digest"]}"'
    streamed = await client.post("/v1/search", json=ASKED, headers={"accept": "text/event-stream"})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    *told, last = [each.split("\n") for each in streamed.text.strip().split("\n\n")]
    assert {name for name, _ in told} == {"event: progress"}
    steps = [json.loads(data.removeprefix("data: ")) for _, data in told]
    assert [each["done"] for each in steps] == list(range(1, steps[0]["portions"] + 1))
    assert last[0] == "event: answer"
    assert json.loads(last[1].removeprefix("data: ")) == plain.json()


async def test_what_is_wrong_is_a_problem_in_either_way(client: AsyncClient) -> None:
    wrong = {**ASKED, "training": {"seq_length": 4096}}
    plain = await client.post("/v1/search", json=wrong)
    assert plain.status_code == 422
    assert plain.json()["errors"][0]["pointer"] == "/training/global_batch_size"
    streamed = await client.post("/v1/search", json=wrong, headers={"accept": "text/event-stream"})
    assert streamed.text.startswith("event: problem\n")


async def test_a_search_whose_time_is_up_tells_what_was_found_by_then(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await client.post("/v1/search", json=ASKED)
    assert whole.json()["cut"] is None
    monkeypatch.setattr(search, "SEARCHING", 0.0)
    for objective in ("fastest", "most_headroom"):
        cut = await client.post("/v1/search", json=ASKED | {"objective": objective})
        assert cut.status_code == 200, cut.text
        assert "after 0 of" in cut.json()["cut"]
        assert "etag" not in cut.headers
        assert cut.json()["best"] == []

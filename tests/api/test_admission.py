"""No more requests at once than the service is set to take."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from httpx import ASGITransport, AsyncClient

from trainfit.api.app import create_app
from trainfit.api.examples import LLAMA_8B
from trainfit.api.settings import Settings


@pytest.mark.parametrize("path", ["/v1/estimate", "/v1/fit-check"])
async def test_one_request_too_many_is_told_to_come_back(path: str) -> None:
    app = create_app(Settings(max_concurrent_requests=1))
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow_body() -> AsyncIterator[bytes]:
        begun.set()
        await go_on.wait()
        yield json.dumps(LLAMA_8B).encode()

    headers = {"content-type": "application/json"}
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        first = asyncio.create_task(client.post(path, content=slow_body(), headers=headers))
        await begun.wait()
        refused = await client.post(path, json=LLAMA_8B)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["type"] == "/problems/overloaded"
        assert (await client.get("/livez")).status_code == 200
        go_on.set()
        assert (await first).status_code == 200
        assert (await client.post(path, json={})).status_code == 422
        assert (await client.post(path, json=LLAMA_8B)).status_code == 200

"""Workers do what takes long, and hold no more than that needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from httpx import ASGITransport, AsyncClient

from tests.workers import work
from trainfit.api.app import create_app
from trainfit.api.settings import ServiceSettings
from trainfit.workers.pool import Workers

OF_THE_SERVICE = {"asyncio", "fastapi", "httpx", "prometheus_client", "starlette", "structlog"}
"""What these load takes half as much again as all that a worker needs."""


def questions(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every example of every operation that takes a body."""
    for path, methods in document["paths"].items():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {})
            for example in content.get("application/json", {}).get("examples", {}).values():
                yield path, example["value"]


async def test_a_worker_loads_nothing_that_only_the_service_needs() -> None:
    app = create_app(ServiceSettings(worker_processes=1, request_timeout_seconds=60))
    workers: Workers = app.state.workers
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        first = await workers.run("quick", work.process)
        asked = list(questions((await client.get("/openapi.json")).json()))
        for path, body in asked:
            assert (await client.post(path, json=body)).status_code == 200, path
    assert len(asked) > 20
    assert await workers.run("quick", work.process) == first
    assert not OF_THE_SERVICE & await workers.run("quick", work.loaded)
    await workers.aclose()

"""/livez and /readyz."""

from __future__ import annotations

import pytest
from httpx import AsyncClient

from trainfit.api.routes import operations


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_probes_answer_in_plain_text(client: AsyncClient, path: str, method: str) -> None:
    response = await client.request(method, path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text == ("ok" if method == "GET" else "")


async def test_a_service_without_its_catalogue_lives_but_is_not_ready(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise FileNotFoundError

    monkeypatch.setattr(operations, "gpus", missing)
    assert (await client.get("/livez")).status_code == 200
    assert (await client.get("/readyz")).status_code == 500

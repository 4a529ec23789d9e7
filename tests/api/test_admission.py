"""No more requests at once than the service is set to take."""

from __future__ import annotations

import pytest
from httpx import ASGITransport, AsyncClient

from trainfit.api.app import create_app
from trainfit.api.examples import LLAMA_8B
from trainfit.api.settings import ServiceSettings


@pytest.mark.parametrize("path", ["/v1/estimate", "/v1/fit-check"])
async def test_one_request_too_many_is_told_to_come_back(path: str) -> None:
    app = create_app(ServiceSettings(max_concurrent_requests=1))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        with app.state.admission:  # as a request that is answered
            refused = await client.post(path, json=LLAMA_8B)
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert refused.json()["type"] == "/problems/overloaded"
            assert (await client.get("/livez")).status_code == 200
        assert (await client.post(path, json={})).status_code == 422
        assert (await client.post(path, json=LLAMA_8B)).status_code == 200

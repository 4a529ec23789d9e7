"""What every response carries, and what the middleware is made of."""

from __future__ import annotations

import re

import pytest
from httpx import ASGITransport, AsyncClient
from starlette.middleware.base import BaseHTTPMiddleware

from trainfit.api.api_keys import named, new_key
from trainfit.api.app import create_app
from trainfit.api.settings import ServiceSettings


async def test_a_request_gets_an_id_of_its_own(client: AsyncClient) -> None:
    first, second = [(await client.get("/livez")).headers["x-request-id"] for _ in range(2)]
    assert re.fullmatch(r"[0-9a-f]{32}", first)
    assert first != second


@pytest.mark.parametrize("given", ["a", "0" * 64, "trace-1.2_3"])
async def test_a_well_formed_id_is_kept(client: AsyncClient, given: str) -> None:
    response = await client.get("/nowhere", headers={"x-request-id": given})
    assert response.headers["x-request-id"] == given
    assert response.json()["instance"] == f"urn:request:{given}"


@pytest.mark.parametrize("given", ["", "a" * 65, "a b", "a/b", "é"])
async def test_an_ill_formed_id_is_replaced(client: AsyncClient, given: str) -> None:
    response = await client.get("/livez", headers=[(b"x-request-id", given.encode())])
    assert re.fullmatch(r"[0-9a-f]{32}", response.headers["x-request-id"])


@pytest.mark.parametrize("path", ["/livez", "/v1/gpus", "/nowhere", "/openapi.json"])
async def test_browsers_are_allowed_nothing_by_default(client: AsyncClient, path: str) -> None:
    headers = (await client.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


PORTAL = "https://portal.example.org"
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type",
}


async def test_pages_of_other_origins_may_not_ask_by_default(client: AsyncClient) -> None:
    asked = await client.get("/v1/gpus", headers={"origin": PORTAL})
    preflight = await client.options("/v1/estimate", headers={"origin": PORTAL, **PREFLIGHT})
    assert preflight.status_code == 405
    for response in (asked, preflight):
        assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", [PORTAL, "https://evil.example.org"])
async def test_pages_of_origins_that_are_set_may_ask(origin: str) -> None:
    keys = (named("portal", key := new_key()),)
    app = create_app(ServiceSettings(cors_origins=(PORTAL,), api_keys=keys))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        preflight = await client.options("/v1/estimate", headers={"origin": origin, **PREFLIGHT})
        bare = await client.get("/v1/gpus", headers={"origin": origin})
        headers = {"origin": origin, "authorization": f"Bearer {key}"}
        asked = await client.get("/v1/gpus", headers=headers)
    allowed = PORTAL if origin == PORTAL else None
    assert (bare.status_code, asked.status_code) == (401, 200)
    assert preflight.status_code == (200 if allowed else 400)
    for response in (preflight, bare, asked):
        assert response.headers.get("access-control-allow-origin") == allowed
        assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize("origins", [(), (PORTAL,)])
def test_no_middleware_costs_more_than_the_rest_of_the_service(origins: tuple[str, ...]) -> None:
    app = create_app(ServiceSettings(cors_origins=origins))
    assert app.user_middleware
    for middleware in app.user_middleware:
        assert isinstance(middleware.cls, type)
        assert not issubclass(middleware.cls, BaseHTTPMiddleware)

"""What every response carries, and what the middleware is made of."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from httpx import AsyncClient
from starlette.middleware.base import BaseHTTPMiddleware


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


def test_no_middleware_costs_more_than_the_rest_of_the_service(app: FastAPI) -> None:
    assert app.user_middleware
    for middleware in app.user_middleware:
        assert isinstance(middleware.cls, type)
        assert not issubclass(middleware.cls, BaseHTTPMiddleware)

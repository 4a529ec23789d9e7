"""The page's files and a client of the app that serves them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from httpx import ASGITransport, AsyncClient

from trainfit.api.app import create_app
from trainfit.api.settings import ServiceSettings


@pytest.fixture
async def client() -> AsyncIterator[AsyncClient]:
    transport = ASGITransport(app=create_app(ServiceSettings()))
    async with AsyncClient(transport=transport, base_url="http://test") as client:
        yield client

"""A service in this process and a client that talks to it without a socket."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import structlog
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from trainfit.api import middleware
from trainfit.api.app import create_app
from trainfit.api.settings import ServiceSettings


@pytest.fixture
def app() -> FastAPI:
    return create_app(ServiceSettings())


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        yield client


@pytest.fixture
def logs_restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Log to where the test looks, and leave logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    monkeypatch.setattr(middleware, "log", structlog.get_logger())
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()

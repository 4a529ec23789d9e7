"""What every test may rely on: an environment that sets nothing of the hub, service or proxies."""

from __future__ import annotations

import os

import pytest

FOREIGN_PREFIXES = ("HF_", "TRAINFIT_", "TRANSFORMERS_")


@pytest.fixture(autouse=True)
def clean_environ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the variables that change what the service or its HTTP client does."""
    for name in list(os.environ):
        if name.upper().startswith(FOREIGN_PREFIXES) or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop that the server runs on."""
    return "asyncio"

"""A hub that misbehaves, and one's own that asks it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.hub.fake_hub import FakeHub, running_hub
from trainfit.hub import hub as hub_module
from trainfit.hub import stores as stores_module
from trainfit.hub.hub import Hub
from trainfit.hub.settings import HubSettings

MakeHub = Callable[..., Hub]


class Clock:
    """The time of day, and more of it as one says."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What hubs take for the time."""
    clock = Clock()
    monkeypatch.setattr(hub_module, "time", clock)
    monkeypatch.setattr(stores_module, "time", clock)
    return clock


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with running_hub() as hub:
        yield hub


@pytest.fixture
async def make_hub(fake: FakeHub, tmp_path: Path) -> AsyncIterator[MakeHub]:
    """Makes hubs that ask the fake one and share a folder; keywords are settings."""
    async with AsyncExitStack() as opened:

        def make(observer: Any = None, **settings: Any) -> Hub:
            given = {
                "hf_endpoint": fake.url,
                "hf_hub_offline": False,
                "cache_dir": str(tmp_path / "cache"),
                "hub_timeout_seconds": 10.0,
                "hub_connect_timeout_seconds": 5.0,
            }
            hub = Hub(HubSettings(**{**given, **settings}), observer)
            opened.push_async_callback(hub.aclose)
            return hub

        yield make


@pytest.fixture
def hub(make_hub: MakeHub) -> Hub:
    return make_hub()

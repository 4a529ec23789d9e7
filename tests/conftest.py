"""What every test may rely on: an environment that sets nothing of the service or of proxies, and
keeps it from the Hub and from the caches of whoever runs the tests.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from trainfit.api.warming import BETWEEN_COLLECTIONS

# Whatever else the machine does decides how long an example takes.
settings.register_profile("trainfit", deadline=None)
settings.load_profile("trainfit")

pytest_plugins = ["tests.side_by_side"]
FOREIGN_PREFIXES = ("HF_", "TRAINFIT_", "TRANSFORMERS_")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected, never again in what that has made, and for
    other as seldom as the service does.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(BETWEEN_COLLECTIONS)
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def clean_environ() -> Iterator[None]:
    """Take away the variables that change what the service or its HTTP client does."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.upper().startswith(FOREIGN_PREFIXES) or name.upper().endswith("_PROXY"):
                patch.delenv(name)
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_HOME", os.devnull)
        patch.setenv("TRAINFIT_CACHE_DIR", "")
        # Starting processes takes longer than most tests; those of workers have them.
        patch.setenv("TRAINFIT_WORKER_PROCESSES", "0")
        yield


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop that the server runs on."""
    return "asyncio"

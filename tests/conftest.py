"""What every test may rely on: an environment that sets nothing of the service or of proxies, and
keeps it from the Hub and from the caches of whoever runs the tests.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from trainfit.api.warming import BETWEEN_COLLECTIONS

# Whatever else the machine does decides how long an example takes. Where CI is set, Hypothesis
# gives every run the same examples: more of them cost each run, and find nothing new.
settings.register_profile("trainfit", deadline=None, max_examples=50)
settings.load_profile("trainfit")

DIVIDED = (
    "tests/e2e/test_page.py",
    "tests/contract/test_schemathesis.py",
    "tests/shell/test_bash_itself.py",
)
"""Files whose tests several processes run, those of a file of scenarios, of an operation or of a
batch of scripts together.
"""
OF_THE_CORPUS = (
    "tests/accuracy/",
    "tests/decisions/test_ground_truth.py",
    "tests/test_docs.py",
)
"""Files that look at the same rows: one process prices each of these once."""
LONGEST = (
    *DIVIDED,
    *OF_THE_CORPUS,
    "tests/contract/test_generators.py",
    "tests/questions/",
    "tests/decisions/",
    "tests/deploy/",
)
"""What is begun first where several processes run tests, so that none is waited for at the end."""
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the longest first."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep tests that are `together` in one process. (`--dist loadgroup` of xdist 3.8 sees no
    groups under pytest 9.2.)
    """
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = together
    return scheduler


def together(nodeid: str) -> str:
    """What tests of one process have in common, as what they share is made for each process: their
    file, the corpus, and of a file that is divided how their parameters begin.
    """
    path, _, test = nodeid.partition("::")
    if path.startswith(OF_THE_CORPUS):
        return "the corpus"
    first = re.search(r"\[([^:\]]+)", test)
    return f"{path} {first[1]}" if path in DIVIDED and first else path


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

"""The page in a browser, against the running service: scenarios written beside this file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.programs import CHROMIUM, needed, needed_guide, node_packages
from tests.serving import UNHURRIED, Service, running_service
from trainfit.api.api_keys import named, new_key

HERE = Path(__file__).parent
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
"""What a message may hold and XML may not."""
KEY = new_key()
SERVICES = {
    "ORIGIN_WITH_KEY": {"TRAINFIT_API_KEYS": str(named("e2e", KEY))},
    "ORIGIN_WITH_LIMIT": {"TRAINFIT_RATE_LIMIT": "4", "TRAINFIT_RATE_LIMIT_WINDOW_SECONDS": "4"},
}
"""What the services are told that only some files ask, by what these call them."""


def scenarios(path: Path) -> list[str]:
    """The names of the scenarios of a file."""
    return re.findall(r'^scenario\(\s*"([^"]+)"', path.read_text(), re.MULTILINE)


FILES = {path.name: scenarios(path) for path in sorted(HERE.glob("*.test.js"))}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    log = tmp_path_factory.mktemp("service") / "log"  # a pipe that nobody reads would fill
    with running_service(log, **UNHURRIED) as service:
        yield service


@pytest.fixture(scope="module")
def outcomes(
    service: Service, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, str]]:
    """What went wrong in each scenario of a file, in words; empty where nothing did."""
    chromium = needed(*CHROMIUM, package="chromium")
    node = node_packages(HERE)
    logs = tmp_path_factory.mktemp("logs")

    @cache
    def outcomes(file: str) -> dict[str, str]:
        path = HERE / file
        if file == "guide.test.js":
            needed_guide()
        with ExitStack() as stack:
            others = {
                f"PAGE_{name}": stack.enter_context(
                    running_service(logs / name, **UNHURRIED, **settings)
                ).url
                for name, settings in SERVICES.items()
                if name in path.read_text()
            }
            result = subprocess.run(
                [node, "--test-reporter=junit", str(path)],
                cwd=HERE,
                env={
                    **os.environ,
                    **others,
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                    "PAGE_ORIGIN": service.url,
                    "PAGE_KEY": KEY,
                    "CHROMIUM": chromium,
                },
                capture_output=True,
                text=True,
                check=False,
            )
        found = {}
        report = CONTROL.sub("", result.stdout)
        for case in ElementTree.fromstring(report).iter("testcase"):
            failure = case.find("failure")
            found[case.attrib["name"]] = "" if failure is None else "".join(failure.itertext())
        return found

    return outcomes


@pytest.mark.parametrize(
    ("file", "scenario"),
    [
        pytest.param(file, name, id=f"{file}: {name}")
        for file, names in FILES.items()
        for name in names
    ],
)
def test_scenario(outcomes: Callable[[str], dict[str, str]], file: str, scenario: str) -> None:
    assert outcomes(file)[scenario] == ""


@pytest.mark.parametrize("file", FILES)
def test_every_scenario_is_known_by_its_name(
    outcomes: Callable[[str], dict[str, str]], file: str
) -> None:
    assert list(outcomes(file)) == FILES[file]

"""The page in a browser, against the running service: scenarios written beside this file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from tests.programs import needed, node_packages
from tests.serving import running_service
from trainfit.api.api_keys import named, new_key

HERE = Path(__file__).parent
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
"""What a message may hold and XML may not."""
FILES = sorted(HERE.glob("*.test.js"))


class Scenario(NamedTuple):
    """One scenario by its file and its name."""

    file: str
    name: str


def scenarios() -> Iterator[Scenario]:
    for path in FILES:
        for name in re.findall(r'^scenario\(\s*"([^"]+)"', path.read_text(), re.MULTILINE):
            yield Scenario(path.name, name)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What went wrong in each scenario, in words; empty where nothing did."""
    logs = tmp_path_factory.mktemp("logs")  # a pipe that nobody reads would stop a service
    chromium = needed("chromium", package="chromium")
    node = node_packages(HERE)
    key = new_key()
    keys = str(named("e2e", key))
    limit = {"TRAINFIT_RATE_LIMIT": "4", "TRAINFIT_RATE_LIMIT_WINDOW_SECONDS": "4"}
    with (
        running_service(logs / "service") as service,
        running_service(logs / "keyed", TRAINFIT_API_KEYS=keys) as keyed,
        running_service(logs / "limited", **limit) as limited,
    ):
        result = subprocess.run(
            [node, "--test", "--test-reporter=junit", *(str(path) for path in FILES)],
            cwd=HERE,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PAGE_ORIGIN": service.url,
                "PAGE_ORIGIN_WITH_KEY": keyed.url,
                "PAGE_KEY": key,
                "PAGE_ORIGIN_WITH_LIMIT": limited.url,
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


@pytest.mark.parametrize("scenario", list(scenarios()), ids=lambda each: each.name)
def test_scenario(outcomes: dict[str, str], scenario: Scenario) -> None:
    assert outcomes[scenario.name] == ""


def test_every_scenario_is_known_by_its_name(outcomes: dict[str, str]) -> None:
    assert outcomes.keys() == {each.name for each in scenarios()}

"""A TypeScript client generated from openapi.json compiles and talks to the running service."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.serving import UNHURRIED, running_service
from trainfit.api.examples import COMPARE_EXAMPLES, DEEPSEEK_V3
from trainfit.catalog.gpus import gpus

FOLDER = Path(__file__).parent / "typescript"


def run(*command: str) -> str:
    result = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def compiled() -> Path:
    """The compiled program; skips where what compiles it is not installed."""
    if shutil.which("npm") is None or not (FOLDER / "node_modules").is_dir():
        missing = f"the TypeScript client needs node, and `npm ci` in {FOLDER.name}"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    run("npm", "run", "--silent", "build")
    return FOLDER / "build" / "ask.js"


def test_the_typed_client_asks_what_the_readme_asks(compiled: Path, tmp_path: Path) -> None:
    job, comparison = tmp_path / "job.json", tmp_path / "comparison.json"
    job.write_text(json.dumps(DEEPSEEK_V3))
    comparison.write_text(json.dumps(COMPARE_EXAMPLES["changes"]["value"]))
    with running_service(**UNHURRIED) as service:
        answers = json.loads(run("node", str(compiled), service.url, str(job), str(comparison)))
    assert len(answers["stages"]) == 4
    assert answers["total"] == 671_026_404_352
    assert answers["sameDigest"] is True
    assert answers["sameLine"] is True
    assert answers["leaner"] < max(answers["stages"])
    assert answers["verdict"] == "does_not_fit"
    assert [name for name, _ in answers["compared"]] == ["tp 4", "full recompute"]
    assert all(difference < 0 for _, difference in answers["compared"])
    assert answers["batch"] == [1]
    assert answers["refused"] == ["/gpu"]
    assert answers["cards"] == len(gpus())


def test_the_lock_names_no_place_to_download_from() -> None:
    lock = json.loads((FOLDER / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert all("resolved" not in package for package in packages.values())
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())

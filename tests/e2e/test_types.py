"""The page's modules and scenarios agree with the types of openapi.json."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.programs import node_packages

HERE = Path(__file__).parent


def test_the_modules_have_the_types_of_the_contract() -> None:
    node_packages(HERE)
    command = ["npm", "run", "--silent", "types"]
    result = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_lock_names_no_place_to_download_from() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert all("resolved" not in package for package in packages.values())
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())

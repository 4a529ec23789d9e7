"""Programs that tests run beside what the lock file installs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def needed(program: str, *, package: str) -> str:
    """Where the program is. The test skips where it is not installed, and fails in CI."""
    found = shutil.which(program)
    if found is None:
        _missing(f"{program} is not installed; it is in the Debian package {package}")
    return found


def node_packages(folder: Path) -> str:
    """Where node is, for a folder whose packages are installed; skips and fails likewise."""
    node = shutil.which("node")
    if node is None or not (folder / "node_modules").is_dir():
        _missing(f"this needs node, and `npm ci` in {folder.name}")
    return node


def _missing(what: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)

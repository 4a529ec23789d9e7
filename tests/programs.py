"""Programs that tests run beside what the lock file installs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parents[1]
CHROMIUM = "chromium-headless-shell", "chromium"
"""The browser without its windows takes a third less time."""
BRIEF_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""What runs for seconds takes half the time where little is spent on making it fast."""


def installed(*programs: str) -> str | None:
    """Where the first of these programs is that is installed."""
    return next(filter(None, map(shutil.which, programs)), None)


def needed(*programs: str, package: str) -> str:
    """Where the first of these programs is that is installed. The test skips where none is, and
    fails in CI.
    """
    found = installed(*programs)
    if found is not None:
        return found
    _missing(f"{' or '.join(programs)} is not installed; it is in the Debian package {package}")


def needed_folder(folder: Path, *, package: str) -> None:
    """Skips and fails likewise where the folder of a library is not there."""
    if not folder.is_dir():
        _missing(f"{folder} is not there; it is in the Debian package {package}")


def locked(environment: str, program: str) -> Path:
    """Where the program of an environment with a lock of its own is; skips and fails likewise."""
    found = ROOT / f".venv-{environment}" / "bin" / program
    if not found.exists():
        _missing(f"{program} is not installed; make .venv-{environment}/ready installs it")
    return found


def needed_guide() -> None:
    """Skips and fails likewise where the guide has not been built."""
    if not (ROOT / "service/trainfit/web/site/index.html").exists():
        _missing("the guide is not there; make guide builds it")


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

"""The rules that others have for OpenAPI documents find nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.programs import node_packages
from tools.openapi import DOCUMENT

pytestmark = pytest.mark.clients

FOLDER = Path(__file__).parent / "lint"


def printed(*command: str) -> str:
    program, *words = command
    path = str(FOLDER / "node_modules" / ".bin" / program)
    done = subprocess.run([path, *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    return done.stdout


def test_spectral_finds_nothing() -> None:
    node_packages(FOLDER)
    found = printed(
        "spectral", "lint", "--quiet", "-r", "spectral.yaml", "-f", "json", str(DOCUMENT)
    )
    assert json.loads(found) == []


def test_redocly_finds_nothing() -> None:
    node_packages(FOLDER)
    found = printed("redocly", "lint", "--format", "json", str(DOCUMENT))
    assert json.loads(found)["problems"] == []

"""Modules of the page that need no browser, run by node."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.programs import needed

SCRIPT = Path(__file__).parent / "modules.test.js"


def test_the_modules_do_what_they_say() -> None:
    node = needed("node", package="nodejs")
    command = [node, "--no-warnings", "--test", str(SCRIPT)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr

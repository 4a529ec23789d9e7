"""Runs a program's own parser, where its environment is."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PYTHON = Path(os.environ.get("TRAINFIT_PARSERS", HERE.parents[1] / ".venv-parsers/bin/python"))


def parsed_by(program: str, launches: list[Any]) -> list[Any]:
    """What the parser of a program makes of each launch: its arguments, or None where it refuses.
    Skips where the parsers are not installed.
    """
    if not PYTHON.exists():
        pytest.skip(f"no parser of {program} is installed; `make parsers` does")
    done = subprocess.run(
        [PYTHON, "-P", HERE / "own" / f"{program}.py"],
        input=json.dumps(launches),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers: list[Any] = json.loads(done.stdout)
    return answers

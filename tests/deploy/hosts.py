"""What runs a gate: a shell with a `trainfit` that is forked from one that has loaded all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.forking import forked_programs

ROOT = Path(__file__).parents[2]
CI = ROOT / "deploy" / "ci"
FITS, TOO_LONG = "llama-8b.yaml", "llama-8b-long.yaml"


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def shell(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command with nothing in its environment but a PATH with `trainfit`, where Python finds it,
    and these variables.
    """
    path = f"{forked_programs()}:{Path(sys.executable).parent}:{os.defpath}"
    found = {name: os.environ[name] for name in ["PYTHONPATH"] if name in os.environ}
    return subprocess.run(
        command,
        cwd=folder,
        env={"PATH": path, **found, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

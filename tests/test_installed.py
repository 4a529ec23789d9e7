"""The wheel and the sdist, installed into an environment that has nothing of this tree."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def python(*words: str, program: Path | str = sys.executable, folder: Path = ROOT) -> str:
    clean = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(program), *words], cwd=folder, env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_is_built_installs_and_answers(kind: str, tmp_path: Path) -> None:
    python("-m", "hatchling", "build", "-t", kind, "-d", str(tmp_path))
    (built,) = tmp_path.glob("trainfit-*")
    fresh = tmp_path / "fresh"
    venv.create(fresh)
    (packages,) = fresh.glob("lib/*/site-packages")
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(packages)]
    python("-m", "pip", *install, str(built))
    # Dependencies are those of this environment; a path in a .pth brings no editable install along.
    packages.joinpath("here.pth").write_text(sysconfig.get_path("purelib"))
    trainfit = ["-m", "trainfit"]
    program = fresh / "bin" / "python"
    where = python(
        "-c", "import trainfit; print(trainfit.__file__)", program=program, folder=tmp_path
    )
    assert Path(where.strip()).is_relative_to(fresh)
    assert "(catalogue " in python(*trainfit, "--version", program=program, folder=tmp_path)
    answer = ["estimate", "Qwen/Qwen3-8B", "--num-gpus", "8", "--gpu", "H100-80GB"]
    assert "fits" in python(*trainfit, *answer, program=program, folder=tmp_path)

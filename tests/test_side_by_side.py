"""How tests are run by several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.side_by_side import together

ROOT = Path(__file__).parents[1]
FIRST = """
import os
import pytest

@pytest.mark.parametrize("number", range(9))
def test_of_one_process(number: int, tmp_path_factory) -> None:
    print("said by", number)
    assert number != 4

@pytest.mark.alone
def test_alone() -> None:
    assert os.getpid() == int(os.environ["FORKED_BY"])
"""
SECOND = """
import os
import pytest

@pytest.fixture(scope="module")
def made(tmp_path_factory):
    made = tmp_path_factory.mktemp("made")
    yield made
    assert len([*made.iterdir()]) == 2, "both were run by the process that made it"

@pytest.mark.parametrize("number", range(2))
def test_of_another(number: int, made) -> None:
    assert os.getpid() != int(os.environ["FORKED_BY"])
    (made / str(number)).touch()

def test_that_is_missing(nothing: None) -> None: ...

@pytest.mark.skip(reason="why not")
def test_skipped() -> None: ...
"""
THIRD = """
import os

def test_that_ends_its_process() -> None:
    os._exit(7)
"""
CONFTEST = """
import os
pytest_plugins = ["tests.side_by_side"]
os.environ["FORKED_BY"] = str(os.getpid())
"""


def ran(folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    for number, text in enumerate((*files,)):
        (folder / f"test_{number}.py").write_text(text)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = alone: runs with no other\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-ra", "-n", "2", str(folder)]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_processes_find_is_reported_as_one_would(tmp_path: Path) -> None:
    done = ran(tmp_path, FIRST, SECOND)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 11 passed, 1 skipped, 1 error" in done.stdout
    assert "FAILED test_0.py::test_of_one_process[4]" in done.stdout
    assert "ERROR test_1.py::test_that_is_missing" in done.stdout
    assert "why not" in done.stdout
    assert "said by 4" in done.stdout
    assert "said by 5" not in done.stdout
    assert done.stderr == ""


def test_a_process_that_ends_before_its_time_is_named_with_its_test(tmp_path: Path) -> None:
    done = ran(tmp_path, THIRD)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "a process ended with 7 in test_0.py::test_that_ends_its_process" in done.stdout


def test_what_is_shared_is_run_by_one_process() -> None:
    scenario = "tests/e2e/test_page.py::test_scenario"
    assert together(f"{scenario}[fields.test.js: a field]") == together(
        f"{scenario}[fields.test.js: another]"
    )
    assert together(f"{scenario}[fields.test.js: a]") != together(f"{scenario}[keeping.test.js: a]")
    assert together("tests/accuracy/test_corpus.py::test_a") == together(
        "tests/test_docs.py::test_b"
    )
    assert together("tests/api/test_hub.py::test_a[b]") == "tests/api/test_hub.py"

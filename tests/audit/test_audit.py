"""The audit fails on what is known, passes on what is not, and says when it could not ask."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.audit.__main__ import VULNERABLE, rounds
from tests.serving import free_port

ROOT = Path(__file__).parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))
PYTHON = ROOT / ".venv-audit" / "bin" / "python"
LOCK = """\
alpha==1.0 ; python_full_version < '3.12' \\
    --hash=sha256:00
alpha==2.0 ; python_full_version >= '3.12' \\
    --hash=sha256:00
beta[extra]==3.1+cpu ; sys_platform == 'nowhere' \\
    --hash=sha256:00
"""
ASKED = {"alpha==1.0", "alpha==2.0", "beta==3.1"}


@dataclass
class Database:
    """One that speaks as OSV does. It knows of a vulnerability of some versions, fails for others,
    and remembers for which it was asked.
    """

    url: str = ""
    known: set[str] = field(default_factory=lambda: {VULNERABLE})
    failing: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def answer(self, query: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        pin = f"{query['package']['name']}=={query['version']}"
        self.asked.append(pin)
        if pin in self.failing:
            return 500, {}
        if pin not in self.known:
            return 200, {}
        affected = {"package": query["package"], "versions": [query["version"]]}
        return 200, {"vulns": [{"id": "TEST-1", "summary": "Bad.", "affected": [affected]}]}


@pytest.fixture
def database() -> Iterator[Database]:
    database = Database()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, answer = database.answer(query)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        database.url = f"http://127.0.0.1:{server.server_port}/v1/query"
        yield database
        server.shutdown()


def audited(url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """An audit of a lock, by the environment that `make audit` uses."""
    if not PYTHON.exists():
        missing = "pip-audit is not installed; make .venv-audit/ready installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    lock = folder / "requirements.lock"
    lock.write_text(LOCK)
    command = [str(PYTHON), "-m", "tests.audit", "--osv-url", url, str(lock)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_what_has_no_known_vulnerability_passes(database: Database, tmp_path: Path) -> None:
    answer = audited(database.url, tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("No known vulnerabilities found") == 2
    assert "SKIPPED" not in answer.stderr
    assert sorted(database.asked) == sorted({VULNERABLE} | ASKED)


@pytest.mark.parametrize("pin", ["alpha==2.0", "beta==3.1"])
def test_a_known_vulnerability_fails(database: Database, tmp_path: Path, pin: str) -> None:
    database.known.add(pin)
    answer = audited(database.url, tmp_path)
    assert answer.returncode == 1
    assert "Found 1 known vulnerability in 1 package" in answer.stdout
    assert "TEST-1" in answer.stdout
    assert "SKIPPED" not in answer.stderr


def test_a_database_out_of_reach_is_told_and_does_not_fail(tmp_path: Path) -> None:
    answer = audited(f"http://127.0.0.1:{free_port()}/v1/query", tmp_path)
    assert answer.returncode == 0
    assert answer.stderr.startswith("SKIPPED: make audit. No database of vulnerabilities: ")
    assert "Connection refused" in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize("fails", [True, False])
def test_one_that_knows_nothing_is_no_database(
    database: Database, tmp_path: Path, fails: bool
) -> None:
    database.known.clear()
    database.failing |= {VULNERABLE} if fails else set()
    answer = audited(database.url, tmp_path)
    assert answer.returncode == 0
    assert answer.stderr.startswith("SKIPPED: make audit. No database of vulnerabilities: ")
    assert database.asked == [VULNERABLE]


def test_one_that_breaks_off_fails(database: Database, tmp_path: Path) -> None:
    database.failing.add("beta==3.1")
    answer = audited(database.url, tmp_path)
    assert answer.returncode == 1
    assert "SKIPPED" not in answer.stderr


def test_every_version_of_every_lock_is_asked_for_once() -> None:
    asked = rounds(LOCKS)
    pins = [pin for each in asked for pin in each]
    assert len(pins) == len(set(pins))
    for lock in LOCKS:
        for line in lock.read_text().splitlines():
            if not line.startswith(" "):
                name, _, version = line.partition("==")
                version = version.split()[0].partition("+")[0]
                assert f"{name.partition('[')[0]}=={version}" in pins
    for each in asked:
        assert len({pin.partition("==")[0] for pin in each}) == len(each)

"""A Go client generated from openapi.json compiles, asks the running service and loses no field of
its answers. The commands and the program of docs/clients.md are those that run here.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.programs import BRIEF_JAVA, locked, needed, needed_folder
from tests.serving import UNHURRIED, Service, running_service
from tools.openapi import DOCUMENT
from trainfit.api.examples import DEEPSEEK_V3

pytestmark = pytest.mark.clients

ROOT = DOCUMENT.parents[1]
GUIDE = ROOT / "docs" / "clients.md"
ASK = Path(__file__).parent / "go" / "ask.go"
LIBRARIES = Path("/usr/share/gocode")
"""Where Debian puts Go packages."""
JOB = {**DEEPSEEK_V3, "gpu": {"name": "H100-80GB"}}
CHANGES = [{"id": "tp 4", "patch": [{"op": "replace", "path": "/parallelism/tp", "value": 4}]}]


def listing(language: str) -> str:
    """The listing in this language in the guide's section on Go."""
    section = GUIDE.read_text().partition("\n## Go\n")[2].partition("\n## ")[0]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the compiled programs: `ask`, and `guide` of the documentation."""
    go = needed("go", package="golang-go")
    needed("java", package="default-jre-headless")
    generator = locked("clients", "openapi-generator-cli")
    validator = LIBRARIES / "src" / "gopkg.in" / "validator.v2"
    needed_folder(validator, package="golang-gopkg-validator.v2-dev")
    folder = tmp_path_factory.mktemp("go")
    sources = folder / "src"
    for name, program in (("ask", ASK.read_text()), ("guide", listing("go"))):
        (sources / name).mkdir(parents=True)
        (sources / name / "main.go").write_text(program)

    command = shlex.split(listing("sh").replace("\\\n", ""))
    assert command[0] == generator.name
    command[0] = str(generator)
    command[command.index("openapi/openapi.json")] = str(DOCUMENT)
    run(*command, folder=sources, **BRIEF_JAVA)
    # No module of the internet is fetched: packages are those of the path, as before modules.
    path = {"GO111MODULE": "off", "GOPATH": f"{folder}:{LIBRARIES}", "GOFLAGS": ""}
    run(go, "install", "ask", "guide", folder=folder, **path)
    return folder / "bin"


def run(*command: str, folder: Path, **environment: str) -> str:
    result = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with running_service(**UNHURRIED) as running:
        yield running


@pytest.fixture(scope="module")
def answers(programs: Path, service: Service) -> dict[str, Any]:
    """What the client read, written as JSON again."""
    job = programs / "job.json"
    job.write_text(json.dumps(DEEPSEEK_V3))
    read: dict[str, Any] = json.loads(
        run(str(programs / "ask"), service.url, str(job), folder=programs)
    )
    return read


ASKED: dict[str, tuple[str, Any]] = {
    "estimate": ("estimate", JOB),
    "fit": ("fit-check", JOB),
    "compared": ("compare", {"job": JOB, "changes": CHANGES}),
    "batch": ("estimate:batch", {"jobs": [{"id": "v3", "job": JOB}]}),
    "ledger": ("ledger", {**JOB, "gpu": None}),
    "gpus": ("gpus", None),
    "models": ("models", None),
}


@pytest.mark.parametrize("name", ASKED)
def test_the_client_reads_every_field(answers: dict[str, Any], service: Service, name: str) -> None:
    path, body = ASKED[name]
    method = "GET" if body is None else "POST"
    sent = httpx.request(method, f"{service.url}/v1/{path}", json=body, timeout=30)
    assert answers[name] == sent.json()


def test_bytes_of_more_than_32_bits_are_read(answers: dict[str, Any]) -> None:
    estimate = answers["estimate"]
    assert estimate["binding"]["device_bytes"]["expected"] > 2**31
    assert estimate["model"]["parameters"]["total"] == 671_026_404_352
    assert estimate["job"]["gpu"]["name"] == "H100-80GB-SXM"


def test_the_job_of_an_answer_can_be_asked_again(answers: dict[str, Any]) -> None:
    assert answers["again"] == answers["estimate"]["request_digest"]


def test_a_job_of_the_client_s_types_is_answered(answers: dict[str, Any]) -> None:
    assert answers["small"]["parallelism"]["dp"] == 8
    assert answers["small"]["job"]["framework"]["name"] == "transformers"


def test_a_summary_is_read_as_the_line_of_an_answer(answers: dict[str, Any]) -> None:
    """The client accepts JSON by name, so that no text comes where it expects an object."""
    assert answers["in_brief"] == answers["estimate"]["summary"]["mb"]
    assert answers["in_brief"].startswith("Theoretical memory footprints: ")


def test_a_refusal_is_read_as_a_problem(answers: dict[str, Any]) -> None:
    (error,) = answers["refused"]["errors"]
    assert (answers["refused"]["status"], error["pointer"]) == (422, "/gpu/name")
    assert error["suggestion"][0]["value"] == "H100-80GB-SXM"
    assert answers["unread"]["type"] == "/problems/invalid-launch"


def test_the_program_of_the_guide_runs(programs: Path, service: Service) -> None:
    verdict, size = run(str(programs / "guide"), service.url, folder=programs).split()
    assert verdict in {"fits", "tight", "does_not_fit"}
    assert int(size) > 2**31

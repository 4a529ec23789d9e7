"""What the project promises about itself, beside what the service answers."""

from __future__ import annotations

import ast
import http.server
import importlib.metadata
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import trustme
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import trainfit
from tools.guide.sources import places

ROOT = Path(__file__).parent.parent
LOCKS = (
    "requirements.lock",
    "requirements-otel.lock",
    "requirements-build.lock",
    "requirements-dev.lock",
)

INSTALLED = {canonicalize_name(each.name) for each in importlib.metadata.distributions()}

REGISTRY = re.compile(
    r"\b(?:pypi|pythonhosted|npmjs|yarnpkg|docker|quay|ghcr|gcr|jsdelivr|unpkg)\.(?:com|io|net|org)\b"
)
MACHINE_PATH = re.compile(r"(?<![\w.$}-])/(?:root|work|opt/wheels)/|\.\./shared\b")


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def project_files() -> Iterator[Path]:
    """Every file of the project, which is every file that .gitignore does not name."""
    lines = (ROOT / ".gitignore").read_text().splitlines()
    ignored = [".git", *(line.strip("/") for line in lines if line and not line.startswith("#"))]

    def kept(path: Path) -> bool:
        names = path.name, path.relative_to(ROOT).as_posix()
        return not any(fnmatch(name, pattern) for name in names for pattern in ignored)

    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = (name for name in subfolders if kept(Path(folder, name)))
        yield from filter(kept, (Path(folder, name) for name in names))


def mentions(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in project_files()
        for found in pattern.finditer(path.read_text(errors="replace"))
    ]


def test_no_file_names_a_package_registry() -> None:
    assert mentions(REGISTRY) == []


def test_no_file_of_the_project_names_a_path_of_the_machine_it_was_made_on() -> None:
    assert [line for line in mentions(MACHINE_PATH) if not line.startswith("tests/data/")] == []


def test_no_two_classes_have_one_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "service").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


@pytest.mark.parametrize(
    "lock",
    [
        *LOCKS,
        "requirements-audit.lock",
        "requirements-clients.lock",
        "requirements-docs.lock",
        "requirements-fuzz.lock",
        "requirements-oracle.lock",
        "requirements-parsers.lock",
        "requirements-parsers-alone.lock",
    ],
)
def test_every_locked_package_is_pinned_and_carries_hashes(lock: str) -> None:
    requirements = (ROOT / lock).read_text().replace("\\\n", " ").splitlines()
    assert requirements
    for requirement in requirements:
        assert re.match(
            r"[a-z0-9.-]+(\[[a-z, -]+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}", requirement
        )


def test_a_lock_pins_every_extra_that_a_locked_package_asks_of_another() -> None:
    """Where only `coverage` is pinned, pip before 23.3 takes the newest release for
    `coverage[toml]`, which has no hash here.
    """
    lock = (ROOT / "requirements-dev.lock").read_text()
    pinned = {
        name: set(extras.split(",")) if extras else set()
        for name, extras in re.findall(r"^([\w.-]+)(?:\[([\w,]+)\])?==", lock, re.MULTILINE)
    }
    asked = {
        (canonicalize_name(requirement.name), extra)
        for name, extras in pinned.items()
        if name in INSTALLED
        for requirement in map(Requirement, importlib.metadata.requires(name) or ())
        if requirement.marker is None
        or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras))
        for extra in requirement.extras
    }
    assert ("coverage", "toml") in asked
    assert {(name, extra) for name, extra in asked if extra not in pinned[name]} == set()


def test_locks_agree_on_versions_and_the_development_lock_holds_them_all() -> None:
    serving, tracing, building, testing = (
        set(re.findall(r"^[\w.-]+(?:\[[\w,]+\])?==\S+", (ROOT / lock).read_text(), re.MULTILINE))
        for lock in LOCKS
    )
    assert serving <= tracing
    assert tracing | building <= testing


def test_the_oracle_is_locked_to_the_versions_that_its_rows_were_made_with() -> None:
    lock = (ROOT / "requirements-oracle.lock").read_text()
    for exact in pyproject()["dependency-groups"]["oracle"]:
        assert re.search(rf"^{re.escape(exact)}(\+cpu)?\b", lock, re.MULTILINE)


def test_every_dependency_is_locked() -> None:
    locked = set(
        re.findall(
            r"^([\w.-]+)(?:\[[\w,]+\])?==", (ROOT / "requirements.lock").read_text(), re.MULTILINE
        )
    )
    assert {dependency_name(line) for line in pyproject()["project"]["dependencies"]} <= locked


def dependency_name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def test_every_dependency_is_kept_out_of_the_estimator() -> None:
    """The import contract lists packages; one that is added later must be listed too."""
    dependencies = map(dependency_name, pyproject()["project"]["dependencies"])
    modules = {
        name.replace("pyyaml", "yaml").removesuffix("-api").replace("-", "_")
        for name in dependencies
    }
    contracts = {each["id"]: each for each in pyproject()["tool"]["importlinter"]["contracts"]}
    assert modules <= set(contracts["estimator-is-arithmetic"]["forbidden_modules"])


def test_version_is_written_once() -> None:
    assert "version" in pyproject()["project"]["dynamic"]
    assert importlib.metadata.version("trainfit") == trainfit.__version__


def test_licence_is_apache_2() -> None:
    assert pyproject()["project"]["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text()


def test_make_help_lists_every_target() -> None:
    targets = re.findall(r"^\.PHONY: (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {
        "setup",
        "serve",
        "test",
        "check",
        "format",
        "bench",
        "openapi",
        "manifests",
        "lock",
    } <= set(targets)
    answer = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.findall(r"^  (\S+) +\S", answer.stdout, re.MULTILINE) == targets


@pytest.mark.parametrize("target", ["test", "audit", "oracle"])
def test_continuous_integration_runs(target: str) -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert re.search(rf"\bmake {target}$", script.read_text(), re.MULTILINE)


def image_instructions() -> list[tuple[str, str]]:
    """The Dockerfile as pairs of instruction and arguments, comments and line breaks taken out."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(name, " ".join(rest)) for name, *rest in map(str.split, filter(None, lines))]


def test_image_is_built_apart_from_what_it_ships() -> None:
    instructions = image_instructions()
    starts = [index for index, (name, _) in enumerate(instructions) if name == "FROM"]
    assert len(starts) == 3
    assert all("-slim" in instructions[start][1] for start in starts)
    assert "RUN" not in dict(instructions[starts[-1] :])


def test_image_installs_locked_packages_only() -> None:
    installs = [
        command
        for name, rest in image_instructions()
        if name == "RUN"
        for command in rest.split("&&")
        if " install " in command
    ]
    assert installs
    assert all("--require-hashes" in command or "--no-deps" in command for command in installs)


def test_image_runs_as_nobody_writes_nothing_and_is_reachable() -> None:
    instructions = image_instructions()
    settings = " ".join(rest for name, rest in instructions if name == "ENV").split()
    assert ("USER", "65532:65532") in instructions
    assert {"PYTHONDONTWRITEBYTECODE=1", "TRAINFIT_HOST=0.0.0.0"} <= set(settings)


def test_image_copies_what_the_build_context_sends() -> None:
    sent = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    copied = {
        source
        for name, rest in image_instructions()
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert copied == set(sent)
    assert all((ROOT / source).exists() for source in copied)


def test_image_gets_all_that_the_guide_is_built_from() -> None:
    instructions = image_instructions()
    start = instructions.index(("FROM", "python:${PYTHON_VERSION}-slim AS guide"))
    sources = {
        source
        for name, rest in instructions[start : instructions.index(("RUN", "python -m tools.guide"))]
        if name == "COPY"
        for source in rest.split()[:-1]
    }
    for place in places():
        assert sources & {place, *(str(folder) for folder in PurePosixPath(place).parents)}, place


@contextmanager
def service_that_answers(status: int, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve `status` at /livez and 404 elsewhere; yields the port."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/livez" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_health_check_of_the_image_asks_over_tls_where_that_is_served(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    issued = trustme.CA().issue_cert("service.example.org")
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    (check,) = (rest for name, rest in image_instructions() if name == "HEALTHCHECK")
    _, *arguments = json.loads(check[check.index("[") :])
    with service_that_answers(200, context) as port:
        environment = {"TRAINFIT_PORT": str(port), "TRAINFIT_TLS_CERT": str(certificate)}
        answer = subprocess.run([sys.executable, *arguments], env=environment, check=False)
    assert answer.returncode == 0


@pytest.mark.parametrize(("status", "exit_code"), [(200, 0), (503, 1)])
def test_health_check_of_the_image_asks_livez(status: int, exit_code: int) -> None:
    (check,) = (rest for name, rest in image_instructions() if name == "HEALTHCHECK")
    program, *arguments = json.loads(check[check.index("[") :])
    assert program == "python"
    with service_that_answers(status) as port:
        environment = {"TRAINFIT_PORT": str(port), "http_proxy": "http://127.0.0.1:1"}
        answer = subprocess.run([sys.executable, *arguments], env=environment, check=False)
    assert answer.returncode == exit_code

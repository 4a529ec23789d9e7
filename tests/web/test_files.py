"""The page as files: served, small, and loading nothing from elsewhere."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from httpx import AsyncClient

from trainfit.web.page import STATIC

ROOT = Path(__file__).parents[2]
VENDOR = STATIC / "vendor"
MODULES = sorted(path for path in STATIC.rglob("*.js") if path.parent != VENDOR)
MAX_OWN_BYTES = 90_000
"""Of the page's own code, with its comments, compressed as one."""
MAX_LINE_LENGTH = 100
"""As in Python."""
WRITTEN = sorted([*MODULES, *(ROOT / "tests/e2e").glob("*.js"), *(ROOT / "tests/web").glob("*.js")])


def loaded() -> Iterator[Path]:
    """What a browser loads for the page."""
    yield from (STATIC / "index.html", STATIC / "icon.svg", VENDOR / "htm-preact.js", *MODULES)
    yield from (STATIC / "style").iterdir()


async def test_the_page_is_served_and_may_reach_nothing_but_the_service(
    client: AsyncClient,
) -> None:
    response = await client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert {source for value in directives.values() for source in value.split()} == {
        "'none'",
        "'self'",
        "blob:",
    }


async def test_whatever_the_page_links_is_served(client: AsyncClient) -> None:
    page = (STATIC / "index.html").read_text()
    links = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert links
    for link in links:
        assert (await client.get(f"/{link}")).status_code == 200


@pytest.mark.parametrize("path", list(loaded()), ids=lambda path: str(path.relative_to(STATIC)))
async def test_a_browser_asks_whether_a_file_has_changed(client: AsyncClient, path: Path) -> None:
    response = await client.get(f"/page/{path.relative_to(STATIC).as_posix()}")
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-cache"
    again = {"if-none-match": response.headers["etag"]}
    unchanged = await client.get(response.request.url, headers=again)
    assert unchanged.status_code == 304


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(STATIC)))
def test_a_module_imports_files_that_are_there(path: Path) -> None:
    for target in re.findall(r'^(?:import|export)[^;]*? from "([^"]+)";', path.read_text(), re.M):
        assert target.startswith("."), target
        assert (path.parent / target).is_file(), target


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_line_of_code_is_not_too_long(path: Path) -> None:
    lines = enumerate(path.read_text().splitlines(), start=1)
    assert [number for number, line in lines if len(line) > MAX_LINE_LENGTH] == []


def test_every_module_is_used() -> None:
    used = {STATIC / "main.js"}
    for path in MODULES:
        for target in re.findall(r'(?:from|import) "(\.[^"]+)";', path.read_text()):
            used.add((path.parent / target).resolve())
    assert set(MODULES) <= used


def test_the_page_is_small() -> None:
    own = [path for path in loaded() if path.parent != VENDOR]
    assert len(gzip.compress(b"".join(path.read_bytes() for path in own))) < MAX_OWN_BYTES


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]
    assert "<style" not in page
    assert "style=" not in page


def test_vendored_libraries_are_as_published() -> None:
    lines = (VENDOR / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    ours = {"README.md", "SHA256SUMS", "htm-preact.d.ts"}
    assert sums.keys() == {path.name for path in VENDOR.iterdir()} - ours
    for name, digest in sums.items():
        assert sha256((VENDOR / name).read_bytes()).hexdigest() == digest


def test_the_wheel_holds_the_page() -> None:
    builder = WheelBuilder(str(ROOT))
    shipped = {Path(file.path).resolve() for file in builder.recurse_included_files()}
    assert set(loaded()) <= shipped

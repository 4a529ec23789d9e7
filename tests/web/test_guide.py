"""The guide as files: what is served of a site, and to whoever asks for more than that."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from hatchling.builders.wheel import WheelBuilder
from httpx import ASGITransport, AsyncClient
from starlette.applications import Starlette

from tests.programs import needed_guide
from trainfit.api.app import create_app
from trainfit.api.settings import ServiceSettings
from trainfit.web.guide import SITE, routes

ROOT = Path(__file__).parents[2]
SECRET = "not to be read"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site, with a secret beside it."""
    site = tmp_path / "site"
    (site / "assets").mkdir(parents=True)
    (site / "index.html").write_text("<h1>Trainfit</h1>")
    (site / "api.html").write_text("<h1>The API</h1>")
    (site / "assets" / "page.js").write_text("'use strict';")
    (site / "picture.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "site-secret").mkdir()
    (tmp_path / "site-secret" / "secret.txt").write_text(SECRET)
    (site / "outside.txt").symlink_to(tmp_path / "secret.txt")
    return site


@pytest.fixture
async def reader(monkeypatch: pytest.MonkeyPatch, site: Path) -> AsyncIterator[AsyncClient]:
    """A client of the service that has this guide."""
    monkeypatch.setattr("trainfit.web.guide.SITE", site)
    transport = ASGITransport(app=create_app(ServiceSettings()))
    async with AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/guide/", "text/html; charset=utf-8"),
        ("/guide/index.html", "text/html; charset=utf-8"),
        ("/guide/api.html", "text/html; charset=utf-8"),
        ("/guide/assets/page.js", "text/javascript; charset=utf-8"),
        ("/guide/picture.svg", "image/svg+xml"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_file_has_its_type_and_may_reach_nothing_but_the_service(
    reader: AsyncClient, method: str, path: str, media_type: str
) -> None:
    response = await reader.request(method, path)
    assert response.status_code == 200
    assert response.headers["content-type"] == media_type
    assert response.headers["x-content-type-options"] == "nosniff"
    assert bool(response.content) == (method == "GET")
    policy = response.headers["content-security-policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == directives["style-src"] == "'self'"
    sources = {source for value in directives.values() for source in value.split()}
    assert sources == {"'none'", "'self'", "data:"}


@pytest.mark.parametrize("path", ["/guide/", "/guide/api.html", "/guide/assets/page.js"])
async def test_a_browser_asks_whether_a_file_has_changed(reader: AsyncClient, path: str) -> None:
    response = await reader.get(path)
    assert response.headers["cache-control"] == "no-cache"
    again = await reader.get(path, headers={"if-none-match": response.headers["etag"]})
    assert again.status_code == 304 or path == "/guide/"


@pytest.mark.parametrize("query", ["", "?q=1"])
async def test_the_slash_is_added_where_a_prefix_is_not_known(
    reader: AsyncClient, query: str
) -> None:
    response = await reader.get(f"/guide{query}", headers={"host": "elsewhere.example"})
    assert (response.status_code, response.headers["location"]) == (307, "guide/")


@pytest.mark.parametrize(
    "path",
    [
        "/guide/%2e%2e/secret.txt",
        "/guide/..%2fsecret.txt",
        "/guide/%2e%2e%2fsecret.txt",
        "/guide/..%5csecret.txt",
        "/guide/assets/%2e%2e/%2e%2e/secret.txt",
        "/guide/..%2fsite-secret%2fsecret.txt",
        "/guide/%252e%252e%252fsecret.txt",
        "/guide/outside.txt",
        "/guide//etc/passwd",
        "/guide/%2fetc%2fpasswd",
        "/guide/file:%2f%2f%2fetc%2fpasswd",
        "/guide/%00",
        "/guide/index.html%00.js",
        "/guide/assets",
        "/guide/assets/",
        "/guide/api",
        "/guide/%2e",
        "/guide/%2e%2e",
        "/guide/%ff%fe",
        "/guide/" + "a" * 5000,
        "/guide/" + "a/" * 2000,
        "/guidebook",
        "/Guide/",
    ],
)
async def test_nothing_else_is_found(reader: AsyncClient, path: str) -> None:
    """Dots are encoded, since a client takes plain ones out of an address."""
    for method in ("GET", "HEAD"):
        response = await reader.request(method, path)
        assert response.status_code in (404, 414), (method, response.text)
        assert SECRET not in response.text
        assert "root:" not in response.text
    assert response.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE"])
@pytest.mark.parametrize("path", ["/guide", "/guide/", "/guide/api.html"])
async def test_the_guide_is_only_read(reader: AsyncClient, method: str, path: str) -> None:
    response = await reader.request(method, path, content=b"x" * 1000)
    assert response.status_code == 405
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/guide", "/guide/", "/guide/api.html"])
async def test_where_none_was_built_it_says_how(tmp_path: Path, path: str) -> None:
    transport = ASGITransport(app=Starlette(routes=routes(tmp_path / "site")))
    async with AsyncClient(transport=transport, base_url="http://test") as client:
        response = await client.get(path)
    assert response.status_code == 404
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert "make guide" in response.text


class Links(HTMLParser):
    """What a page links to, what it loads, and what can be linked to in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.inline: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        to = given.get("href", given.get("src", given.get("srcset")))
        if to is not None:
            (self.links if tag == "a" else self.loads).append(to)
        runs = tag == "script" and "src" not in given and given.get("type") != "application/json"
        if runs or tag in ("style", "base", "iframe") or "style" in given:
            self.inline.append(f"{tag} {given}")
        self.inline += [name for name in given if name.startswith("on")]


@pytest.fixture(scope="module")
def pages() -> dict[str, Links]:
    """The pages of the guide as it was built, by their paths."""
    needed_guide()
    return {
        path.relative_to(SITE).as_posix(): Links(path.read_text("utf-8"))
        for path in SITE.rglob("*.html")
    }


def test_every_link_leads_to_a_page_and_every_anchor_to_a_place_in_it(
    pages: dict[str, Links],
) -> None:
    assert len(pages) > 25
    lost = []
    for name, page in pages.items():
        for link in (*page.links, *page.loads):
            parts = urlsplit(urljoin(f"http://guide/{name}", link))
            if parts.netloc != "guide":
                continue
            aim = re.sub(r"(^|/)$", r"\1index.html", unquote(parts.path).removeprefix("/"))
            anchors = {"", *pages[aim].anchors} if aim in pages else {""}
            if not (SITE / aim).is_file() or unquote(parts.fragment) not in anchors:
                lost.append(f"{name}: {link}")
    assert lost == []


def test_nothing_is_loaded_from_elsewhere_and_no_page_holds_scripts_or_styles(
    pages: dict[str, Links],
) -> None:
    for name, page in pages.items():
        assert [each for each in page.loads if re.match(r"\w*:?//|\w+:", each)] == [], name
        assert page.inline == [], name


def test_style_sheets_load_nothing_from_elsewhere() -> None:
    needed_guide()
    for path in SITE.rglob("*.css"):
        loaded = re.findall(r"(?:url\(|@import\s*)[\"']?([^\"')]+)", path.read_text("utf-8"))
        assert [each for each in loaded if not each.startswith("data:")] == [], path


def test_a_wheel_holds_the_guide_where_it_was_built() -> None:
    needed_guide()
    builder = WheelBuilder(str(ROOT))
    shipped = {Path(file.path).resolve() for file in builder.recurse_included_files()}
    assert {path for path in SITE.rglob("*") if path.is_file()} <= shipped

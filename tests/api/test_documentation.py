"""/docs: a page that needs nothing from elsewhere."""

from __future__ import annotations

import re
from hashlib import sha256

import pytest
from httpx import AsyncClient

from trainfit.api.routes.documentation import SWAGGER_UI


async def test_the_page_loads_only_what_the_service_serves(client: AsyncClient) -> None:
    response = await client.get("/docs")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    links = re.findall(r'(?:src|href)="([^"]+)"', response.text)
    assert len(links) == 4
    for link in links:
        if not link.startswith("data:"):
            assert (await client.get(f"/{link}")).status_code == 200


async def test_the_page_may_reach_nothing_but_the_service(client: AsyncClient) -> None:
    policy = (await client.get("/docs")).headers["content-security-policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == "'self'"
    sources = {source for value in directives.values() for source in value.split()}
    assert sources == {"'none'", "'self'", "'unsafe-inline'", "data:"}


async def test_the_page_has_no_script_of_its_own(client: AsyncClient) -> None:
    page = (await client.get("/docs")).text
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == ["", ""]


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("swagger-ui-bundle.js", "text/javascript"),
        ("page.js", "text/javascript"),
        ("swagger-ui.css", "text/css"),
    ],
)
async def test_assets_have_their_types(client: AsyncClient, name: str, media_type: str) -> None:
    response = await client.get(f"/docs/assets/{name}")
    assert response.headers["content-type"] == f"{media_type}; charset=utf-8"
    assert response.headers["etag"]


def test_swagger_ui_is_as_published() -> None:
    lines = (SWAGGER_UI / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    ours = {"README.md", "SHA256SUMS", "index.html", "page.js"}
    assert sums.keys() == {path.name for path in SWAGGER_UI.iterdir()} - ours
    for name, digest in sums.items():
        assert sha256((SWAGGER_UI / name).read_bytes()).hexdigest() == digest

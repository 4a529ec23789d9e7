"""Serves the guide: docs/ as a site, which stands in the package where it was built."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from trainfit.web.files import REVALIDATE, Files

SITE = Path(__file__).parent / "site"

# Its style sheets hold their icons as data URLs, and search runs in a worker.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {**REVALIDATE, "content-security-policy": CONTENT_SECURITY_POLICY}

NOT_BUILT = (
    "The guide has not been built here.\n\n"
    "In the repository, `make guide` builds it from docs/, which can be read as it stands;\n"
    "then start the service anew.\n"
)


def routes(site: Path) -> list[BaseRoute]:
    """What is served of a site: its files, or how to build it where there is none."""
    index = site / "index.html"

    async def first_page(_: Request) -> Response:
        return FileResponse(index, headers=HEADERS)

    if not index.is_file():
        return [Route("/guide", not_built), Route("/guide/{path:path}", not_built)]
    return [
        Route("/guide", to_first_page),
        Route("/guide/", first_page),
        Mount("/guide", Files(site, HEADERS)),
    ]


async def to_first_page(_: Request) -> Response:
    """Add the slash that links between pages count on. The address is relative, for a service
    behind a prefix.
    """
    return RedirectResponse("guide/")


async def not_built(_: Request) -> Response:
    """What to do where there is no guide."""
    return PlainTextResponse(NOT_BUILT, 404)

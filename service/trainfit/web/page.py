"""Serves the page: static files from the package, which load nothing from elsewhere."""

import os
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"

# A picture is drawn from a blob: when it is taken away as PNG.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Modules of one release must not meet those of another.
REVALIDATE = {"cache-control": "no-cache"}


class Modules(StaticFiles):
    """The files that the page loads; a browser asks each time whether they have changed."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(REVALIDATE)
        return response


async def page(_: Request) -> Response:
    """The page itself."""
    headers = {**REVALIDATE, "content-security-policy": CONTENT_SECURITY_POLICY}
    return FileResponse(STATIC / "index.html", headers=headers)


routes = [Route("/", page), Mount("/page", Modules(directory=STATIC))]

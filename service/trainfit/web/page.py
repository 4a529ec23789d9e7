"""Serves the page: static files from the package, which load nothing from elsewhere."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route

from trainfit.web.files import REVALIDATE, Files

STATIC = Path(__file__).parent / "static"

# A picture is drawn from a blob: when it is taken away as PNG.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def page(_: Request) -> Response:
    """The page itself."""
    headers = {**REVALIDATE, "content-security-policy": CONTENT_SECURITY_POLICY}
    return FileResponse(STATIC / "index.html", headers=headers)


routes = [Route("/", page), Mount("/page", Files(STATIC))]

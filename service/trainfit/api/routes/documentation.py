"""The API's description, a page to read and try it, and a page for each kind of problem.

Swagger UI is served from the package: a page that needs a CDN is blank in an air-gapped cluster.
"""

from pathlib import Path

from fastapi import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from trainfit.api.kinds import KINDS
from trainfit.api.openapi import openapi_bytes

SWAGGER_UI = Path(__file__).parent.parent / "swagger_ui"

# Swagger UI draws its icons from data URLs and sets styles inline.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def docs(_: Request) -> Response:
    """The page of Swagger UI."""
    headers = {"content-security-policy": CONTENT_SECURITY_POLICY}
    return FileResponse(SWAGGER_UI / "index.html", headers=headers)


async def openapi(request: Request) -> Response:
    """The OpenAPI document."""
    return Response(openapi_bytes(request.app), media_type="application/json")


async def problem_page(request: Request) -> Response:
    """What a kind of problem means."""
    kind = KINDS.get(request.path_params["slug"])
    if kind is None:
        raise HTTPException(404)
    return PlainTextResponse(f"{kind.title} (HTTP {kind.status})\n\n{kind.meaning}\n")


routes = [
    Route("/docs", docs),
    Mount("/docs/assets", StaticFiles(directory=SWAGGER_UI)),
    Route("/openapi.json", openapi),
    Route("/problems/{slug}", problem_page),
]

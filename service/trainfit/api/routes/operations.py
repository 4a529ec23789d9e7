"""What an operator asks: is it alive, is it ready, how is it doing. Outside the API proper."""

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from trainfit.api.metrics import metrics_of
from trainfit.api.operation import identify
from trainfit.api.settings import ServiceSettings
from trainfit.catalog.gpus import gpus
from trainfit.questions.catalogues import bundled_models


async def livez(_: Request) -> Response:
    """The process answers."""
    return PlainTextResponse("ok")


async def readyz(request: Request) -> Response:
    """The catalogues are loaded, by the first call, and the service was not told to stop."""
    if request.app.state.draining:
        return PlainTextResponse("stopping", 503)
    gpus()
    bundled_models()
    return PlainTextResponse("ok")


async def metrics(request: Request) -> Response:
    """Prometheus's text format."""
    settings: ServiceSettings = request.app.state.settings
    if settings.metrics_need_key:
        identify(request.scope)
    return Response(metrics_of(request).exposition(), media_type=CONTENT_TYPE_LATEST)


routes = [Route("/livez", livez), Route("/readyz", readyz), Route("/metrics", metrics)]

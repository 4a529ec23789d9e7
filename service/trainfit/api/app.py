"""The service as an ASGI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware

import trainfit
from trainfit.api import openapi
from trainfit.api.admission import Admission
from trainfit.api.failures import answer_with_problems
from trainfit.api.metrics import Metrics
from trainfit.api.middleware import LastResort, RequestIds, RequestRecords, SafeHeaders
from trainfit.api.routes import (
    admission,
    catalogues,
    compare,
    documentation,
    estimate,
    fit_check,
    models,
    operations,
)
from trainfit.api.settings import Settings
from trainfit.hub.hub import Hub
from trainfit.lookup import Lookup


def create_app(settings: Settings) -> FastAPI:
    """An app with these settings and metrics of its own."""
    metrics = Metrics()
    app = FastAPI(
        title="Trainfit",
        version=trainfit.__version__,
        summary=openapi.SUMMARY,
        description=openapi.DESCRIPTION,
        license_info={"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/"}],
        openapi_tags=openapi.TAGS,
        openapi_url=None,
        redirect_slashes=False,
        lifespan=_closing_hub,
        routes=[*operations.routes, *documentation.routes],
        middleware=[
            Middleware(RequestIds),
            Middleware(RequestRecords, metrics=metrics),
            Middleware(SafeHeaders),
            Middleware(LastResort),
        ],
    )
    app.state.settings = settings
    app.state.metrics = metrics
    app.state.admission = Admission(settings.max_concurrent_requests)
    app.state.hub = Hub(settings, metrics)
    app.state.lookup = Lookup(app.state.hub, settings.hub_connect_timeout_seconds)
    app.include_router(estimate.router)
    app.include_router(fit_check.router)
    app.include_router(compare.router)
    app.include_router(admission.router)
    app.include_router(models.router)
    app.include_router(catalogues.router)
    answer_with_problems(app)
    return app


@asynccontextmanager
async def _closing_hub(app: FastAPI) -> AsyncIterator[None]:
    """Close the hub when the app stops. It opens what it needs by itself."""
    yield
    await app.state.hub.aclose()

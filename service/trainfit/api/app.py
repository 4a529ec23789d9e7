"""The service as an ASGI application."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute

import trainfit
from trainfit.api import openapi
from trainfit.api.admission import Admission
from trainfit.api.answers import Answers
from trainfit.api.deadline import Deadlines
from trainfit.api.failures import answer_with_problems
from trainfit.api.metrics import Metrics
from trainfit.api.middleware import LastResort, Requests
from trainfit.api.models import TOKEN_HEADER
from trainfit.api.rate_limit import RateLimit
from trainfit.api.routes import (
    admission,
    catalogues,
    compare,
    documentation,
    estimate,
    fit_check,
    launches,
    ledger,
    mcp,
    measurements,
    models,
    operations,
    reconcile,
    search,
    trace,
)
from trainfit.api.settings import ServiceSettings
from trainfit.api.traces import telemetry
from trainfit.api.unread_bodies import UnreadBodies
from trainfit.api.work import workers_of
from trainfit.hub.hub import Hub
from trainfit.questions.estimate import load_frameworks
from trainfit.questions.lookup import Lookup
from trainfit.web import guide, page


def create_app(settings: ServiceSettings) -> FastAPI:
    """An app with these settings and metrics of its own."""
    load_frameworks()
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
        lifespan=_closing,
        telemetry=telemetry(),
        routes=_routes(settings),
        middleware=[
            Middleware(UnreadBodies),
            Middleware(Requests, metrics=metrics),
            *_across_origins(settings.cors_origins),
            Middleware(LastResort),
        ],
    )
    app.state.settings = settings
    app.state.draining = False
    app.state.metrics = metrics
    app.state.admission = Admission(
        settings.max_concurrent_requests,
        settings.max_concurrent_requests * settings.max_body_bytes,
    )
    app.state.hub = Hub(settings, metrics)
    app.state.lookup = Lookup(app.state.hub, settings.hub_connect_timeout_seconds)
    app.state.workers = workers_of(settings)
    app.state.deadlines = Deadlines()
    app.state.answers = Answers(settings.answer_cache_bytes)
    metrics.watch(app.state.admission.under_way, app.state.answers.size_bytes)
    app.state.rate_limit = _rate_limit(settings)
    app.state.mcp = None
    answer_with_problems(app)
    return app


def _routes(settings: ServiceSettings) -> list[BaseRoute]:
    """What is served. One list, and what is asked most comes first: a router within a router
    matches twice.
    """
    if settings.serve == "admission":
        return [*admission.router.routes, *operations.routes]
    return [
        *estimate.router.routes,
        *fit_check.router.routes,
        *compare.router.routes,
        *search.router.routes,
        *launches.router.routes,
        *ledger.router.routes,
        *trace.router.routes,
        *measurements.router.routes,
        *reconcile.router.routes,
        *admission.router.routes,
        *models.router.routes,
        *catalogues.router.routes,
        *mcp.router.routes,
        *operations.routes,
        *documentation.routes,
        *page.routes,
        *guide.routes(guide.SITE),
    ]


@asynccontextmanager
async def _closing(app: FastAPI) -> AsyncIterator[None]:
    """Start the workers, and close what is open when the app stops."""
    beginning = asyncio.create_task(app.state.workers.begin())
    yield
    app.state.workers.stop()
    beginning.cancel()
    await asyncio.gather(beginning, return_exceptions=True)
    await app.state.workers.aclose()
    await app.state.hub.aclose()
    if app.state.rate_limit is not None:
        await app.state.rate_limit.aclose()


def _rate_limit(settings: ServiceSettings) -> RateLimit | None:
    """The limit, if there is one: that of all replicas where they share a server, whose client is
    loaded for that.
    """
    if not settings.rate_limit:
        return None
    limit = settings.rate_limit, settings.rate_limit_window_seconds
    if settings.cache_url is None:
        return RateLimit(*limit)
    from trainfit.api.shared_rate_limit import SharedRateLimit

    return SharedRateLimit(*limit, settings.cache_url.get_secret_value())


def _across_origins(origins: Sequence[str]) -> list[Middleware]:
    """What lets pages of these origins ask, with a key but without cookies."""
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "Traceparent",
                TOKEN_HEADER,
                "X-Request-Id",
            ],
            expose_headers=["ETag", "X-Request-Id", "Retry-After", "RateLimit", "RateLimit-Policy"],
        )
    ]

"""Runs the service in this process."""

import uvicorn

from trainfit.api.app import create_app
from trainfit.api.logs import configure_logs
from trainfit.api.settings import Settings
from trainfit.api.tls import renewed_context

GRACE_SECONDS = 20
"""For requests under way when the process is told to stop; less than the 30 s that Kubernetes
waits before it kills.
"""


def serve(settings: Settings) -> None:
    """Serve until the process is told to stop. Raises SystemExit where it cannot."""
    if settings.workers > 1:
        raise SystemExit(
            f"WEB_CONCURRENCY is {settings.workers}, but Trainfit runs one process a container, "
            "since each would count requests by itself. Unset it and run more replicas."
        )
    if settings.has_token and not settings.hub_organisations:
        raise SystemExit(
            "The service has a token of the Hub (HF_TOKEN or HF_TOKEN_PATH), so anyone who reaches "
            "it could learn of every model that the token opens. Name the organisations that it "
            "is for in TRAINFIT_HUB_ORGANISATIONS, or unset the token."
        )
    configure_logs(settings.log_level)
    try:
        app = create_app(settings)
    except OSError as error:
        raise SystemExit(f"HF_TOKEN_PATH: {error.strerror}") from None
    tls = None
    if settings.tls_cert is not None and settings.tls_key is not None:
        try:
            tls = renewed_context(settings.tls_cert, settings.tls_key)
        except OSError as error:
            raise SystemExit(f"TRAINFIT_TLS_CERT, TRAINFIT_TLS_KEY: {error}") from None
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        workers=1,
        ssl_context_factory=None if tls is None else lambda *_: tls,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    uvicorn.Server(config).run()

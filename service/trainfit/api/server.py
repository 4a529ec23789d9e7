"""Runs the service in this process, from its first log entry to the end of its last request."""

import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from ssl import SSLContext
from types import FrameType

import structlog
import uvicorn
from fastapi import FastAPI

import trainfit
from trainfit.api.app import create_app
from trainfit.api.connection import Connection
from trainfit.api.log_writer import LogWriter
from trainfit.api.logs import configure_logs
from trainfit.api.settings import ServiceSettings, unknown_variables
from trainfit.api.tls import renewed_context
from trainfit.api.traces import name_service

ANSWERED_WITHIN = 0.8
"""The share of the grace in which what is under way is answered."""

LOG_SECONDS = 1.0
"""For the last entries of the log to be written, where nobody may read them."""

log = structlog.get_logger("trainfit")


def serve(settings: ServiceSettings) -> None:
    """Serve until the process is told to stop. Raises SystemExit where it cannot."""
    _check(settings)
    with _log(settings) as writer:
        tls = _tls(settings)
        app = _app(settings)
        app.state.metrics.watch_log(lambda: writer.dropped)
        _run(settings, app, tls)


@contextmanager
def _log(settings: ServiceSettings) -> Iterator[LogWriter]:
    """Whatever this process says on standard error goes to the writer, and that it says last is
    waited for.
    """
    writer = LogWriter(sys.stderr.fileno())
    with redirect_stderr(writer):
        configure_logs(settings.log_level, settings.log_format, writer.write_later)
        try:
            yield writer
        finally:
            writer.drain(LOG_SECONDS)


def _run(settings: ServiceSettings, app: FastAPI, tls: SSLContext | None) -> None:
    name_service(os.environ)
    for variable, meant in unknown_variables(os.environ):
        log.warning("unknown setting", variable=variable, did_you_mean=meant)
    log.info(
        "starting",
        version=trainfit.__version__,
        callers=sorted({key.label for key in settings.api_keys}) or "anyone",
        rate_limit=settings.rate_limit or "none",
    )
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        workers=1,
        ssl_context_factory=None if tls is None else lambda *_: tls,
        forwarded_allow_ips=settings.forwarded_allow_ips,
        timeout_graceful_shutdown=settings.shutdown_grace_seconds,
    )
    Server(config, app, settings.shutdown_delay_seconds).run()


def _check(settings: ServiceSettings) -> None:
    """Refuse settings that are right one by one and wrong together."""
    if settings.workers > 1:
        raise SystemExit(
            f"WEB_CONCURRENCY is {settings.workers}, but Trainfit runs one process a container, "
            "since each would count requests by itself. Unset it and run more replicas."
        )
    if settings.has_token and not (settings.hub_organisations or settings.api_keys):
        raise SystemExit(
            "The service has a token of the Hub (HF_TOKEN or HF_TOKEN_PATH), so anyone who reaches "
            "it could learn of every model that the token opens. Name the organisations that it "
            "is for in TRAINFIT_HUB_ORGANISATIONS, or the callers in TRAINFIT_API_KEYS, or unset "
            "the token."
        )


def _app(settings: ServiceSettings) -> FastAPI:
    try:
        app = create_app(settings)
    except OSError as error:
        raise SystemExit(f"HF_TOKEN_PATH: {error.strerror}") from None
    # All that is loaded by now stays: to look through it for garbage would hold up callers for
    # a tenth of a second each time.
    gc.collect()
    gc.freeze()
    return app


def _tls(settings: ServiceSettings) -> SSLContext | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    try:
        return renewed_context(settings.tls_cert, settings.tls_key)
    except OSError as error:
        raise SystemExit(f"TRAINFIT_TLS_CERT, TRAINFIT_TLS_KEY: {error}") from None


class Server(uvicorn.Server):
    """Told to stop, it first says so at /readyz and goes on answering for a while, since a load
    balancer that has not noticed yet still sends requests. Then it takes no more, lets those under
    way end, and leaves with exit code 0. Told once more, it does not wait.
    """

    def __init__(self, config: uvicorn.Config, app: FastAPI, delay_seconds: float) -> None:
        super().__init__(config)
        self._app = app
        self._delay_seconds = delay_seconds
        self._exit_at = float("inf")

    def handle_exit(self, sig: int, _: FrameType | None) -> None:
        """Begin to stop. The base class would raise the signal again at the end."""
        if self._app.state.draining:
            self.force_exit = self.should_exit and sig == signal.SIGINT
            self.should_exit = True
        else:
            self._app.state.draining = True
            delay = self._delay_seconds if sig == signal.SIGTERM else 0
            self._exit_at = time.monotonic() + delay

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop. What is under way is answered, or refused shortly before the grace is over."""
        grace = self.config.timeout_graceful_shutdown or 0
        self._app.state.workers.stop()
        self._app.state.deadlines.bring_forward(grace * ANSWERED_WITHIN)
        await super().shutdown(sockets)
        await self._app.state.workers.aclose()  # who does not wait leaves out the app's own end

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop now; asked ten times a second."""
        self.should_exit = self.should_exit or time.monotonic() >= self._exit_at
        return await super().on_tick(counter)

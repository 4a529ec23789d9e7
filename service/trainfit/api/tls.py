"""TLS with a certificate that may be replaced while the service runs, as an issuer renews it."""

from __future__ import annotations

import ssl
from pathlib import Path

import structlog

log = structlog.get_logger("trainfit")


def renewed_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """A server's context with which every connection is given the certificate of that time.

    A pair that cannot be read is logged, and the last one that could stays.

    Raises:
        OSError: a file cannot be read.
        ssl.SSLError: the two are no certificate with its key.
    """
    listening = _loaded(certificate, key)
    current, since = listening, _stamp(certificate, key)

    def renew(connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        nonlocal current, since
        stamp = _stamp(certificate, key)
        if stamp != since:
            since = stamp
            try:
                current = _loaded(certificate, key)
            except OSError as error:  # an ssl.SSLError is one
                log.warning("certificate not renewed", reason=str(error))
            else:
                log.info("certificate renewed")
        connection.context = current

    listening.sni_callback = renew  # called for clients that name no server, too
    return listening


def _loaded(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


def _stamp(*paths: Path) -> tuple[tuple[int, int], ...]:
    """Changes with the files; empty while one of them is away."""
    try:
        found = [path.stat() for path in paths]
    except OSError:
        return ()
    return tuple((each.st_ino, each.st_mtime_ns) for each in found)

"""Answers compressed for whoever accepts gzip: a third of the bytes or less, for 4 us a kB.

A body is compressed where the service listens, which holds up others for less than a millisecond; a
longer one in a thread, where zlib lets them go on. Nothing that a caller may not see stands in one
answer with what others chose, so that its length gives nothing away.
"""

import zlib
from collections.abc import Iterable, Mapping

from anyio import CapacityLimiter, to_thread
from fastapi import Response
from starlette.types import Message, Send

LEVEL = 1
"""Six spares a tenth more bytes, and takes twice the time."""
LEAST_BYTES = 1_400
"""What goes in one packet anyway."""
HERE_BYTES = 262_144
ONE_THREAD = CapacityLimiter(1)
"""Longer bodies wait for one another."""
COMPRESSIBLE = (
    b"application/json",
    b"application/problem+json",
    b"application/x-ndjson",
    b"application/schema+json",
    b"image/svg+xml",
    b"text/css",
    b"text/html",
    b"text/javascript",
    b"text/plain",
)
"""Not text/event-stream, which proxies must hand on piece by piece."""

Headers = Iterable[tuple[bytes, bytes]]


def accepts_gzip(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request with these headers may be answered in gzip."""
    accepted = headers.get(b"accept-encoding")
    if accepted is None or b"gzip" not in accepted:
        return False
    for each in accepted.split(b","):
        coding, _, weight = each.partition(b";")
        if coding.strip() == b"gzip":
            return weight.replace(b" ", b"").rstrip(b"0.") != b"q="
    return False


def compressed(response: Response) -> Response:
    """A response to a POST in gzip, to be sent as often as it is asked for; as it is where that
    would gain nothing, or would hold up others.
    """
    body, headers = bytes(response.body), response.raw_headers
    start = {"status": response.status_code, "headers": headers}
    if not LEAST_BYTES <= len(body) <= HERE_BYTES or not _is_compressible(start):
        return response
    packed = Response(_part(_compressor(), body, False), response.status_code)
    packed.raw_headers = _of_gzip(headers, len(packed.body))
    return packed


class Compressing:
    """Sends a response in gzip, unless it is short, or of a kind that would gain nothing. A body in
    parts is sent on part by part.
    """

    __slots__ = ("_compressor", "_send", "_start", "_weakens")

    def __init__(self, send: Send, method: str) -> None:
        self._send = send
        self._weakens = method == "GET"
        self._start: Message | None = None
        self._compressor: zlib._Compress | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] != "http.response.body":
            await self._send(message)
        else:
            await self._body(message)

    async def _body(self, message: Message) -> None:
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._start is not None:
            start, self._start = self._start, None
            if (more or len(body) >= LEAST_BYTES) and _is_compressible(start):
                self._compressor = _compressor()
                body = await self._compressed(body, more=more)
                start["headers"] = self._headers(start["headers"], None if more else len(body))
                message = {**message, "body": body}
            await self._send(start)
        elif self._compressor is not None:
            message = {**message, "body": await self._compressed(body, more=more)}
        await self._send(message)

    async def _compressed(self, body: bytes, *, more: bool) -> bytes:
        assert self._compressor is not None
        if len(body) <= HERE_BYTES:
            return _part(self._compressor, body, more)
        return await to_thread.run_sync(_part, self._compressor, body, more, limiter=ONE_THREAD)

    def _headers(self, given: Headers, length: int | None) -> list[tuple[bytes, bytes]]:
        """The headers of a response in gzip. The tag of what may be kept is that of other bytes; of
        what is answered to a POST it is the digest of the question.
        """
        if self._weakens:
            given = [
                (name, b"W/" + value if name == b"etag" and value[:1] == b'"' else value)
                for name, value in given
            ]
        return _of_gzip(given, length)


def _of_gzip(given: Headers, length: int | None) -> list[tuple[bytes, bytes]]:
    """Headers of a response in gzip, of so many bytes where that is known."""
    headers = [(name, value) for name, value in given if name != b"content-length"]
    headers.append((b"content-encoding", b"gzip"))
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    return headers


def _is_compressible(start: Message) -> bool:
    headers = dict(start["headers"])
    kind = headers.get(b"content-type", b"").partition(b";")[0]
    return start["status"] != 206 and kind in COMPRESSIBLE and b"content-encoding" not in headers


def _compressor() -> "zlib._Compress":
    return zlib.compressobj(LEVEL, wbits=zlib.MAX_WBITS | 16)


def _part(compressor: "zlib._Compress", body: bytes, more: bool) -> bytes:
    """Part of a body in gzip, which can be read as soon as it has arrived."""
    return compressor.compress(body) + compressor.flush(
        zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH
    )

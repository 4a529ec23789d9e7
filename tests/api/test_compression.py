"""Answers are compressed for whoever accepts it."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest
from anyio import to_thread
from httpx import AsyncClient
from starlette.types import Message

from trainfit.api import compression
from trainfit.api.compression import Compressing, accepts_gzip
from trainfit.api.examples import LLAMA_8B

IDENTITY = {"accept-encoding": "identity"}
GZIP = {"accept-encoding": "gzip"}
JSON = (b"content-type", b"application/json")


@pytest.mark.parametrize(
    ("accepted", "wanted"),
    [
        (b"gzip", True),
        (b"gzip, deflate, br, zstd", True),
        (b"br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        (b"gzip;q=0.001", True),
        (b"gzip;q=0", False),
        (b"deflate, gzip; q=0.000", False),
        (b"x-gzip-like", False),
        (b"br", False),
        (b"", False),
    ],
)
def test_who_accepts_gzip(accepted: bytes, *, wanted: bool) -> None:
    assert accepts_gzip({b"accept-encoding": accepted}) == wanted
    assert not accepts_gzip({})


async def test_an_answer_is_the_same_in_fewer_bytes(client: AsyncClient) -> None:
    plain = await client.post("/v1/estimate", json=LLAMA_8B, headers=IDENTITY)
    packed = await client.post("/v1/estimate", json=LLAMA_8B, headers=GZIP)
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content
    assert 2 * int(packed.headers["content-length"]) < int(plain.headers["content-length"])
    assert packed.headers["etag"] == plain.headers["etag"]
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("path", "packed"),
    [
        ("/openapi.json", True),
        ("/page/app.js", True),
        ("/page/vendor/htm-preact.js", True),
        ("/livez", False),
        ("/nowhere", False),
    ],
)
async def test_what_is_long_enough_is_compressed(
    client: AsyncClient, path: str, *, packed: bool
) -> None:
    plain = await client.get(path, headers=IDENTITY)
    asked = await client.get(path, headers=GZIP)
    assert (asked.headers.get("content-encoding") == "gzip") == packed
    if asked.headers["content-type"] != "application/problem+json":
        assert asked.content == plain.content


async def test_a_file_that_is_kept_is_told_from_its_other_bytes(client: AsyncClient) -> None:
    plain = await client.get("/page/app.js", headers=IDENTITY)
    packed = await client.get("/page/app.js", headers=GZIP)
    assert packed.headers["etag"] == f"W/{plain.headers['etag']}"
    for tag in (plain.headers["etag"], packed.headers["etag"]):
        same = await client.get("/page/app.js", headers={**GZIP, "if-none-match": tag})
        assert same.status_code == 304
    part = await client.get("/page/app.js", headers={**GZIP, "range": "bytes=0-1999"})
    assert part.status_code == 206
    assert part.content == plain.content[:2000]


async def sent(parts: list[bytes], kind: bytes = JSON[1]) -> tuple[dict[bytes, bytes], list[bytes]]:
    """The headers and the parts of a response that is sent in these parts."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(dict(message))

    compressing = Compressing(send, "POST")
    headers: Any = [(b"content-type", kind)]
    await compressing({"type": "http.response.start", "status": 200, "headers": headers})
    for number, part in enumerate(parts, 1):
        more = number < len(parts)
        await compressing({"type": "http.response.body", "body": part, "more_body": more})
    start, *bodies = messages
    return dict(start["headers"]), [each["body"] for each in bodies]


async def test_each_part_can_be_read_when_it_has_come() -> None:
    lines = [json.dumps({"id": number}).encode() + b"\n" for number in range(3)]
    headers, parts = await sent(lines)
    assert headers[b"content-encoding"] == b"gzip"
    assert b"content-length" not in headers
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    assert [reader.decompress(part) for part in parts] == lines


async def test_events_go_on_as_they_are() -> None:
    events = [b"data: 1\n\n" * 1000, b""]
    headers, parts = await sent(events, b"text/event-stream; charset=utf-8")
    assert b"content-encoding" not in headers
    assert parts == events


async def test_a_long_body_is_compressed_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beside: list[int] = []
    run_sync = to_thread.run_sync

    async def counted(function: Any, compressor: Any, body: bytes, more: Any, **how: Any) -> Any:
        beside.append(len(body))
        return await run_sync(function, compressor, body, more, **how)

    monkeypatch.setattr(to_thread, "run_sync", counted)
    for length in (compression.HERE_BYTES, compression.HERE_BYTES + 1):
        headers, (part,) = await sent([b"a" * length])
        assert gzip.decompress(part) == b"a" * length
        assert int(headers[b"content-length"]) == len(part)
    assert beside == [compression.HERE_BYTES + 1]

"""Bodies that are no job because they are no JSON, too much of it, or of another kind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from httpx import ASGITransport, AsyncClient

from trainfit.api.app import create_app
from trainfit.api.settings import ServiceSettings

JSON = {"content-type": "application/json"}


TOO_DEEP = "the body is nested too deeply; at most 64 levels are read"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", "the body is empty"),
        (b" \n", "the body is empty"),
        (b"{", "Expecting property name enclosed in double quotes at line 1, column 2"),
        (b'{"model": }', "Expecting value at line 1, column 11"),
        (b"{} {}", "Extra data at line 1, column 4"),
        (b"\xff\xfe", "the body is not UTF-8"),
        ('{"model": {}}'.encode("utf-16"), "the body is not UTF-8"),
        (b'\xef\xbb\xbf{"model": {}}', "Expecting value at line 1, column 1"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": [-Infinity]}', "-Infinity is not a JSON number"),
        (b'{"a": 1e999}', "a number is out of range"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "a number is out of range"),
        (b"[" * 100_000, TOO_DEEP),
        (b'{"a":' * 100_000, TOO_DEEP),
        (b"[" * 65 + b"]" * 65, TOO_DEEP),
        (b'{"a":' * 300 + b"1" + b"}" * 300, TOO_DEEP),
        (b'{"a": 1, "b": [{"c/d": 1, "c/d": 2}]}', "/b/0/c~1d: is given twice in one object"),
        (b'[{"a": 1, "a": 2}, x', "the body: is given twice in one object"),
        (b'{"a": ["\\ud83d"]}', "a string has half a surrogate pair"),
        (b'{"\\uDE00": 1}', "a string has half a surrogate pair"),
    ],
)
async def test_what_is_not_strict_json_is_refused(
    client: AsyncClient, body: bytes, detail: str
) -> None:
    response = await client.post("/v1/estimate", content=body, headers=JSON)
    problem = response.json()
    assert response.status_code == problem["status"] == 400
    assert problem["type"] == "/problems/invalid-json"
    assert problem["detail"] == detail


async def test_a_whole_surrogate_pair_is_a_character(client: AsyncClient) -> None:
    body = b'{"model": {"hf_id": "gpt2"}, "gpu": {"name": "\\ud83d\\ude00", "memory_bytes": 1}}'
    response = await client.post("/v1/estimate", content=body, headers=JSON)
    assert response.json()["job"]["gpu"]["name"] == "\U0001f600"


async def test_a_name_that_is_given_twice_is_pointed_at(client: AsyncClient) -> None:
    body = b'{"model": {"hf_id": "gpt2"}, "parallelism": {"tp": 1, "tp": 2}}'
    (error,) = (await client.post("/v1/estimate", content=body, headers=JSON)).json()["errors"]
    assert (error["pointer"], error["code"]) == ("/parallelism/tp", "duplicate_key")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
async def test_another_media_type_is_refused(client: AsyncClient, headers: dict[str, str]) -> None:
    response = await client.post("/v1/estimate", content=b"{}", headers=headers)
    assert response.status_code == 415
    assert response.json()["type"] == "/problems/unsupported-media-type"


async def in_parts() -> AsyncIterator[bytes]:
    """A body whose length no header announces."""
    for _ in range(4):
        yield b" " * 300_000


@pytest.mark.parametrize("body", [b" " * 1_048_577, in_parts()])
async def test_a_body_that_is_too_long_is_refused(
    client: AsyncClient, body: bytes | AsyncIterator[bytes]
) -> None:
    response = await client.post("/v1/estimate", content=body, headers=JSON)
    problem = response.json()
    assert response.status_code == problem["status"] == 413
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["detail"] == "the body may have at most 1048576 bytes"


async def test_the_limit_is_a_setting() -> None:
    app = create_app(ServiceSettings(max_body_bytes=10))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        response = await client.post("/v1/estimate", content=b'{"model":1}', headers=JSON)
        assert response.status_code == 413
        response = await client.post("/v1/estimate", content=b'{"model":{', headers=JSON)
        assert response.status_code == 400


async def test_a_body_of_too_many_values_is_refused(client: AsyncClient) -> None:
    body = b"[" + b"0," * 10_000 + b"0]"
    response = await client.post("/v1/estimate", content=body, headers=JSON)
    assert response.status_code == 413
    assert response.json()["detail"] == "the body may have at most 10000 values"


async def test_as_many_errors_are_listed_as_anyone_reads(client: AsyncClient) -> None:
    body = {f"field{number}": 0 for number in range(500)}
    response = await client.post("/v1/estimate", json=body)
    problem = response.json()
    assert response.status_code == 422
    assert len(problem["errors"]) == 32
    assert len(response.content) < 16_384


async def test_thousands_of_unknown_fields_are_one_error(client: AsyncClient) -> None:
    body = {"model": {"hf_id": "gpt2"}, "training": dict.fromkeys(map(str, range(9_000)), 0)}
    problem = (await client.post("/v1/estimate", json=body)).json()
    assert problem["detail"] == "/training: has 9000 fields; at most 512 are looked at"

"""Messages that no client would send are refused in words, for little."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from threading import Event
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient, Response
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfit.api.app import create_app
from trainfit.api.examples import LLAMA_8B
from trainfit.api.routes import mcp
from trainfit.api.settings import ServiceSettings
from trainfit.mcp import endpoint
from trainfit.mcp.endpoint import Endpoint

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return create_app(ServiceSettings())


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        yield client


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def call(tool: str, arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def post(client: AsyncClient, message: object) -> Response:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return await client.post(
        "/mcp", content=body, headers={"content-type": "application/json", "accept": "*/*"}
    )


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ([PING] * 3_000, "invalid-message"),
        ([], "invalid-message"),
        ({"id": 1, "method": "ping"}, "invalid-message"),
        ({**PING, "id": {}}, "invalid-message"),
        ({**PING, "id": True}, "invalid-message"),
        ({**PING, "id": None}, "invalid-message"),
        ({**PING, "params": [1]}, "invalid-message"),
        ({**PING, "method": 7}, "invalid-message"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, "invalid-message"),
        ({**PING, "params": nested(70)}, "invalid-json"),
        (b"[" * 100_000, "invalid-json"),
        (b'{"id": 1, "id": 2}', "invalid-json"),
        (b"", "invalid-json"),
        ({**PING, "params": {"a": [1] * 20_000}}, "too-large"),
        ({**PING, "params": {"a": "x" * 1_100_000}}, "too-large"),
    ],
)
async def test_what_is_no_message_is_a_problem(
    client: AsyncClient, message: object, kind: str
) -> None:
    response = await post(client, message)
    assert response.status_code in (400, 413)
    assert response.json()["type"] == f"/problems/{kind}"
    assert len(response.content) < 600


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({**PING, "method": "nothing/here"}, "Method not found"),
        ({**PING, "method": "resources/list"}, "Method not found"),
        (call("x" * 100_000, {}), "there is no such tool"),
        (call("estimate", [1, 2]), "Invalid request parameters"),
        (call("estimate", {f"k{n}": n for n in range(9_000)}), "at most 512 are looked at"),
        (call("estimate", nested(40)), "/model: is needed and missing"),
        (call("estimate", {**LLAMA_8B, "activations": [1] * 100}), "query parameter activations"),
        (call("estimate", {"model": {"hf_id": "x" * 100_000}}), "at most 96 characters"),
    ],
)
async def test_a_message_that_asks_nonsense_is_answered_in_words(
    client: AsyncClient, message: object, said: str
) -> None:
    response = await post(client, message)
    assert response.status_code == 200
    assert said in response.text
    assert len(response.content) < 4_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
METHODS = st.sampled_from(
    ["ping", "initialize", "tools/list", "tools/call", "server/discover", "subscriptions/listen"]
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": METHODS | st.text(max_size=5)},
    optional={
        "id": JSON,
        "params": st.dictionaries(st.sampled_from(["name", "arguments", "_meta", "cursor"]), JSON)
        | JSON,
    },
)


@settings(max_examples=150)
@given(message=MESSAGES | JSON, version=st.sampled_from([None, "2025-06-18", "2026-07-28", "x"]))
def test_nothing_is_answered_with_a_fault(
    app: FastAPI, message: object, version: str | None
) -> None:
    headers = {"accept": "application/json, text/event-stream", "mcp-method": "tools/call"}
    if version is not None:
        headers["mcp-protocol-version"] = version

    async def status() -> int:
        async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
            return (await client.post("/mcp", json=message, headers=headers)).status_code

    assert asyncio.run(status()) < 500


async def test_an_answer_that_no_agent_could_read_is_refused(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "MAX_TEXT_BYTES", 1_000)
    text = (await post(client, call("estimate", LLAMA_8B))).json()["result"]
    assert text["isError"]
    assert "at most 1000: ask for less" in text["content"][0]["text"]


async def test_a_tool_is_let_in_as_its_operation_is(client: AsyncClient, app: FastAPI) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app.state.admission, "_limit", 0)
        result = (await post(client, call("search", LLAMA_8B))).json()["result"]
    assert result["isError"]
    assert "The service is busy" in result["content"][0]["text"]


async def test_a_fault_is_told_without_what_it_was(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("trainfit.api.routes.fit_check.lane_of_check", fail)
    result = (await post(client, call("fit_check", LLAMA_8B))).json()["result"]
    assert result["isError"]
    assert "The service failed" in result["content"][0]["text"]
    assert "secret" not in result["content"][0]["text"]


def test_who_never_asks_pays_nothing() -> None:
    program = (
        "import sys; from trainfit.api.app import create_app; "
        "from trainfit.api.settings import ServiceSettings; create_app(ServiceSettings()); "
        "assert not {'mcp', 'mcp_types', 'sse_starlette', 'httpx2', 'jwt'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_loading_that_takes_long_is_answered_in_time_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load, answered = mcp._load, Event()

    def slowly(app: FastAPI) -> Endpoint:
        assert answered.wait(60)
        return load(app)

    monkeypatch.setattr(mcp, "_load", slowly)
    app = create_app(ServiceSettings(request_timeout_seconds=1.0))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        late = await client.post("/mcp", json=PING)
        assert late.status_code == 503
        assert late.headers["retry-after"] == "1"
        assert late.json()["type"] == "/problems/timed-out"
        assert not app.state.mcp.done()
        answered.set()
        await app.state.mcp
        assert (await client.post("/mcp", json=PING)).status_code == 200
    await app.state.workers.aclose()

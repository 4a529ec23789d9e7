"""The tools, called by the SDK's own client of a running service."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any, cast

import httpx
import httpx2
import pytest
from mcp import types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.serving import Service, running_service
from trainfit.api.api_keys import named, new_key
from trainfit.api.examples import (
    COMPARE_EXAMPLES,
    DEEPSEEK_V3,
    ESTIMATE_EXAMPLES,
    FIT_CHECK_EXAMPLES,
    LAUNCH_EXAMPLES,
    LLAMA_8B,
    RECONCILE_EXAMPLES,
)
from trainfit.mcp.tools import TOOLS

KEY = new_key()
SMALL: dict[str, Any] = {
    "model": {"hf_id": "Qwen/Qwen2.5-0.5B"},
    "parallelism": {"num_gpus": 2, "tp": 1, "pp": 1, "cp": 1},
    "training": {"global_batch_size": 8, "seq_length": 1024},
    "gpu": "H100-80GB",
}
EXAMPLES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "estimate": ("/v1/estimate", ESTIMATE_EXAMPLES),
    "fit_check": ("/v1/fit-check", FIT_CHECK_EXAMPLES),
    "compare": ("/v1/compare", COMPARE_EXAMPLES),
    "search": ("/v1/search", {"small": {"value": SMALL}}),
    "reconcile": ("/v1/reconcile", RECONCILE_EXAMPLES),
    "from_launch": ("/v1/jobs:from-launch", LAUNCH_EXAMPLES),
}
BEARING = {"Authorization": f"Bearer {KEY}"}
MODES = ("legacy", "2026-07-28")
LISTED_BYTES = 40_000
"""An agent reads them all before it asks anything."""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with running_service(
        TRAINFIT_API_KEYS=str(named("agent", KEY)),
        TRAINFIT_REQUEST_TIMEOUT_SECONDS="120",
        TRAINFIT_RATE_LIMIT="10000",
        TRAINFIT_RATE_LIMIT_WINDOW_SECONDS="86400",
        TRAINFIT_CORS_ORIGINS="https://agents.example",
    ) as service:
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        httpx.post(f"{service.url}/mcp", json=message, headers=BEARING, timeout=120)  # loads it
        yield service


@asynccontextmanager
async def agent(service: Service, mode: str = "auto", key: str = KEY) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
        transport = streamable_http_client(f"{service.url}/mcp", http_client=http)
        async with Client(transport, mode=cast(Any, mode)) as client:
            yield client


async def told(client: Client, tool: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether a call went wrong, and its text."""
    result = await client.call_tool(tool, dict(arguments))
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return bool(result.is_error), content.text


@pytest.mark.parametrize("mode", MODES)
async def test_every_tool_is_listed_with_what_it_takes(service: Service, mode: str) -> None:
    async with agent(service, mode) as client:
        tools = (await client.list_tools()).tools
    assert [each.name for each in tools] == [each.name for each in TOOLS] == [*EXAMPLES]
    for each in tools:
        given = {name for _, examples in [EXAMPLES[each.name]] for name in fields(examples)}
        assert each.title
        assert each.description
        assert given <= each.input_schema["properties"].keys()
    assert tools[0].input_schema["properties"]["parallelism"]["properties"]["tp"] == {
        "type": "integer"
    }
    listed = sum(len(each.model_dump_json(exclude_none=True)) for each in tools)
    assert listed < LISTED_BYTES


def fields(examples: Mapping[str, Any]) -> set[str]:
    return {name for each in examples.values() for name in each["value"]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool", EXAMPLES)
async def test_a_tool_answers_as_its_operation_does(service: Service, tool: str, mode: str) -> None:
    path, examples = EXAMPLES[tool]
    question = next(iter(examples.values()))["value"]
    answer = httpx.post(service.url + path, json=question, headers=BEARING, timeout=120)
    assert answer.status_code == 200
    async with agent(service, mode) as client:
        assert await told(client, tool, question) == (False, answer.text)


async def test_an_option_goes_beside_the_job(service: Service) -> None:
    url = f"{service.url}/v1/estimate?activations=false"
    answer = httpx.post(url, json=DEEPSEEK_V3, headers=BEARING)
    async with agent(service) as client:
        question = {**DEEPSEEK_V3, "activations": False}
        assert await told(client, "estimate", question) == (False, answer.text)


async def test_what_is_wrong_is_told_with_what_would_be_right(service: Service) -> None:
    split = deepcopy(DEEPSEEK_V3)
    del split["parallelism"]["num_layers_in_last_pipeline_stage"]
    async with agent(service) as client:
        is_error, text = await told(client, "estimate", split)
        assert is_error
        assert "/parallelism/pp: 61 layers do not divide over 4 pipeline stages" in text
        assert '"path":"/parallelism/num_layers_in_first_pipeline_stage"' in text
        misspelt = {**LLAMA_8B, "trainning": {}}
        assert "did you mean training" in (await told(client, "fit_check", misspelt))[1]
        bare = {"argv": ["pretrain_gpt.py", "--num-layers", "2"]}
        assert "there is no micro-batch size" in (await told(client, "from_launch", bare))[1]
        with pytest.raises(MCPError, match="there are estimate, fit_check"):
            await client.call_tool("price", {})


async def test_a_message_is_one_request_of_a_caller(service: Service) -> None:
    def left() -> int:
        response = httpx.get(f"{service.url}/v1/gpus", headers=BEARING)
        return int(response.headers["ratelimit"].split("r=")[1].split(";")[0])

    call = {"name": "estimate", "arguments": {**LLAMA_8B, "estimator_version": "0"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    before = left()
    response = httpx.post(f"{service.url}/mcp", json=message, headers=BEARING)
    assert response.json()["result"]["isError"]
    assert "ratelimit" in response.headers
    assert before - left() in (1, 2)  # one may have come back meanwhile


async def test_who_has_no_key_is_told_so(service: Service) -> None:
    response = httpx.post(f"{service.url}/mcp", json={})
    assert response.status_code == 401
    assert response.json()["detail"] == "the request has no key"
    with pytest.RaisesGroup(pytest.RaisesExc(MCPError), flatten_subgroups=True):
        async with agent(service, "legacy", new_key()):
            pass


@pytest.mark.parametrize(
    ("origin", "status"), [("https://agents.example", 200), ("http://127.0.0.1:1", 403)]
)
async def test_pages_of_other_origins_may_not_ask(
    service: Service, origin: str, status: int
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {**BEARING, "Origin": origin}
    assert httpx.post(f"{service.url}/mcp", json=message, headers=headers).status_code == status


def test_there_are_no_sessions_to_open_or_to_end(service: Service) -> None:
    for method in ("GET", "DELETE"):
        response = httpx.request(method, f"{service.url}/mcp", headers=BEARING)
        assert response.status_code == 405
        assert response.headers["allow"] == "POST"


def test_messages_are_counted(service: Service) -> None:
    metrics = httpx.get(f"{service.url}/metrics").text
    assert 'operation="mcp"' in metrics
    assert json.dumps(KEY) not in metrics
